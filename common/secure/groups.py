"""Groups of members whose sums are opened one by one, so that a robust rule can compare them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedtag.common.errors import ProtocolError
from fedtag.common.numerics.robust_rules import GROUP
from fedtag.common.numerics.shares import BALANCE, heaviest
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.member_keys import check_name

FEWEST_MEMBERS = GROUP
"""Members of a group: of two, each would see the other's update."""
ROUNDING = 1e-6

Groups = tuple[tuple[str, ...], ...]


def draw_commitment(run: str, owner: str, draw: bytes) -> str:
    """SHA-256 that binds a member to its part of the seed before it knows the others'."""
    return hashlib.sha256(canonical("draw", run, owner, draw)).hexdigest()


def drawn_groups(draws: Mapping[str, bytes]) -> Groups:
    """A partition into as many groups of at least three as there can be, by a seed that all members made.

    Args:
        draws: the part of each member, none of which knew another's when it committed to its own.

    Returns:
        Groups of three to five sorted names, sorted; none for fewer than three members.
    """
    seed = hashlib.sha256(canonical("groups", *(part for pair in sorted(draws.items()) for part in pair)))
    order = sorted(draws, key=lambda name: _rank(seed.digest(), name))
    count = len(order) // FEWEST_MEMBERS
    return tuple(sorted(tuple(sorted(order[place::count])) for place in range(count)))


def _rank(seed: bytes, name: str) -> bytes:
    return hashlib.sha256(canonical("group", seed, name)).digest()


def parsed_groups(value: Any) -> Groups:
    """Groups of a request that anybody may have written.

    Raises:
        ProtocolError: they are no lists of names, a name stands in two of them, or one is too small.
    """
    if not isinstance(value, list) or not all(isinstance(group, list) for group in value):
        raise ProtocolError("groups must be lists of names; the server needs the same fedtag")
    names = [name for group in value for name in group]
    for name in names:
        check_name(name)
    if len(set(names)) < len(names) or any(len(group) < FEWEST_MEMBERS for group in value):
        raise ProtocolError(
            f"every group must have {FEWEST_MEMBERS} members at least, none of them in another one"
        )
    return tuple(tuple(sorted(group)) for group in value)


def opened_groups(
    groups: Groups,
    survivors: Collection[str],
    before: Iterable[Collection[str]],
    weights: Mapping[str, float],
) -> Groups:
    """The survivors of each group whose sum may be opened.

    Args:
        groups: the partition.
        survivors: whose uploads arrived.
        before: over whom sums were opened in the run.
        weights: of the members in the sum; a group in which one has nearly all is not opened.
    """
    opened = list(before)
    found = []
    for group in groups:
        left = tuple(name for name in group if name in survivors)
        # Nobody has a share where nobody has any weight.
        if (
            len(left) < FEWEST_MEMBERS
            or not 0 < heaviest({name: weights[name] for name in left})[1] <= BALANCE
        ):
            continue
        if not shown_by([*opened, left]):
            opened.append(left)
            found.append(left)
    return tuple(found)


def shown_by(sums: Sequence[Collection[str]]) -> tuple[str, ...]:
    """Whom sums over these members give away: one whose update, or two whose difference, is a combination of them.

    Over many rounds a regression finds what lies in the span of the sums, and nothing else.

    Args:
        sums: over whom each sum was.

    Returns:
        The first one or two names; none if the sums give nobody away.
    """
    kinds = {frozenset(one) for one in sums}
    names = sorted({name for one in kinds for name in one})
    if sum(map(len, kinds)) == len(names) and all(len(one) >= FEWEST_MEMBERS for one in kinds):
        return ()
    rows = np.array([[name in one for name in names] for one in kinds], np.float64)
    span = np.linalg.pinv(rows) @ rows
    inside = span.diagonal()
    if (alone := np.flatnonzero(inside > 1 - ROUNDING)).size:
        return (names[int(alone[0])],)
    distance = inside[:, None] + inside[None, :] - 2 * span
    np.fill_diagonal(distance, 0.0)
    if (pairs := np.argwhere(distance > 2 - ROUNDING)).size:
        return tuple(sorted(names[int(place)] for place in pairs[0]))
    return ()
