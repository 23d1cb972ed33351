"""Weights with which a sum would show one client's update almost alone."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.numerics.shares import BALANCE, heaviest, largest_share
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.groups import Groups
from fedtag.common.wording.counts import plural

SUM_TOLERANCE = 1e-6


def checked_weights(
    weights: Any, members: Collection[str], most: float, groups: Groups = ()
) -> dict[str, float]:
    """The weights of a sum, as floats by name.

    Args:
        weights: as the server sent them.
        members: of the block.
        most: `aggregation.max-share`, the cap on weights of steps; 1 for sums over nodes, which have none.
        groups: those whose sums are opened one by one; none if all members are in one sum.

    Raises:
        ProtocolError: a weight is missing, strange, negative or not finite; they do not sum to 1; one member has
            more than its share may be, or almost all.
    """
    if not isinstance(weights, Mapping) or set(weights) != set(members):
        raise ProtocolError("weights must be a table with every member of the block and nobody else")
    for name, weight in weights.items():
        if (
            isinstance(weight, bool)
            or not isinstance(weight, int | float)
            or not 0 <= weight <= 1 + SUM_TOLERANCE
        ):
            raise ProtocolError(f"the weight {weight!r:.40} of {name} must be a number from 0 to 1")
    total = math.fsum(weights.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ProtocolError(f"the weights sum to {total:g}: they must sum to 1")
    table = {name: float(weight) for name, weight in sorted(weights.items())}
    for group in groups or (tuple(table),):
        own = {name: table.get(name, 0.0) for name in group}
        check_balance(own, own)
        largest = largest_share(most, sum(weight > 0 for weight in own.values()))
        name, share = heaviest(own)
        if share > largest + SUM_TOLERANCE:
            raise ProtocolError(
                f"{name} has {share:.3f} of the weight of {plural(len(own), 'member')}: at most {largest:g} is allowed "
                "(aggregation.max-share)"
            )
    return table


def check_balance(weights: Mapping[str, float], survivors: Collection[str]) -> None:
    """Refuse a sum over survivors among whom one has more than `BALANCE` of their weight.

    It holds for two members as well: each of them can subtract its own part, but the server cannot.

    Raises:
        ProtocolError: one does.
    """
    name, share = heaviest({name: weights[name] for name in survivors})
    if share > BALANCE:
        raise ProtocolError(
            f"{name} has {share:.3f} of the weight of {plural(len(survivors), 'member')}, so that the sum would show "
            f"its update: at most {BALANCE:g} is allowed"
        )


def parts_digest(weights: Mapping[str, float], survivors: Collection[str]) -> str:
    """SHA-256 of the shares in a sum over survivors; scaling all weights alike does not change them."""
    total = math.fsum(weights[name] for name in survivors) or 1.0
    shares = [(name, f"{weights[name] / total:.9f}") for name in sorted(survivors)]
    return hashlib.sha256(canonical(*(part for pair in shares for part in pair))).hexdigest()
