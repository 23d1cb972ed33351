"""Shares that clients have in what comes together, and the most that one of them may have."""

from __future__ import annotations

import math
from collections.abc import Mapping

BALANCE = 0.9
"""Share of a sum or of a pooled score beyond which it is one client's alone; the others are lost in it."""


def largest_share(most: float, count: int) -> float:
    """The largest share that one of so many may have: no less than an equal one, and of two at least `BALANCE`.

    Args:
        most: `aggregation.max-share`, in (0, 1].
        count: of those that have a share above 0.
    """
    return max(most, BALANCE if count == 2 else 1 / max(count, 1))


def heaviest(weights: Mapping[str, float]) -> tuple[str, float]:
    """Who has most of a weight, and its share of all; a share of 0 where nobody has any.

    Args:
        weights: at least one, at least 0; the first of equal ones is taken.
    """
    name, total = max(weights, key=lambda one: weights[one]), math.fsum(weights.values())
    return name, weights[name] / total if total else 0.0


def capped_shares(shares: Mapping[str, float], most: float) -> dict[str, float]:
    """Shares none of which is above `largest_share`; what is cut off goes to the others, in proportion to theirs.

    Shares of which none is too large stay as they are, to the last bit.

    Args:
        shares: by client, at least 0, sum 1.
        most: as for `largest_share`.
    """
    capped = dict(shares)
    bound = largest_share(most, sum(share > 0 for share in shares.values()))
    full: set[str] = set()
    while over := {client for client, share in capped.items() if client not in full and share > bound}:
        full |= over
        rest = math.fsum(shares[client] for client in shares if client not in full)
        left = max(0.0, 1 - bound * len(full))
        capped = {
            client: bound if client in full else share * left / rest if rest else 0.0
            for client, share in shares.items()
        }
    return capped


def outweighing(counts: Mapping[str, int]) -> set[str]:
    """Those that have more than `BALANCE` of what three or more have, the largest first and then without it.

    Args:
        counts: by client, at least 0.
    """
    left = {client: count for client, count in counts.items() if count > 0}
    found: set[str] = set()
    while len(left) >= 3:
        largest = max(sorted(left), key=lambda client: left[client])
        if left[largest] <= BALANCE * sum(left.values()):
            break
        found.add(largest)
        del left[largest]
    return found
