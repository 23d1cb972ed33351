"""How much of the evidence changes from round to round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedtag.client.evidence.packs import EvidencePack, NodeId


@dataclass(frozen=True)
class Change:
    """The spans of one node in an earlier and a later round.

    Args:
        node: its identifier.
        changed: share of the union of both sets of spans that only one of them has, in [0, 1].
    """

    node: NodeId
    changed: float


@dataclass(frozen=True)
class Churn:
    """The change between two rounds.

    Args:
        first, last: the rounds.
        nodes: how many nodes have evidence in both.
        changed: mean share of spans that changed.
        unchanged_nodes: how many nodes kept exactly the same spans.
    """

    first: int
    last: int
    nodes: int
    changed: float | None
    unchanged_nodes: int


def changes(before: Sequence[EvidencePack], after: Sequence[EvidencePack]) -> list[Change]:
    """For each node that has evidence in both, what changed; the Jaccard distance of its sets of spans."""
    earlier = {pack.node: _spans(pack) for pack in before}
    found = []
    for pack in after:
        if pack.node in earlier:
            old, new = earlier[pack.node], _spans(pack)
            union = old | new
            found.append(Change(pack.node, len(old ^ new) / len(union) if union else 0.0))
    return found


def churn(first: int, last: int, found: Sequence[Change]) -> Churn:
    """The mean over nodes."""
    changed = math.fsum(one.changed for one in found) / len(found) if found else None
    return Churn(first, last, len(found), changed, sum(one.changed == 0 for one in found))


def by_margin(pairs: Sequence[tuple[float, float]], groups: int = 4) -> list[tuple[float, int, float]]:
    """The mean change of nodes in groups of like margin, smallest first.

    Only nodes with a finite margin count: others have no competitor for the last place of the budget.

    Args:
        pairs: for each node the top-B margin of its chunk scores, and its change.
        groups: of as equal a size as possible, >= 1.

    Returns:
        for each group: its largest margin, its number of nodes, its mean change.
    """
    ordered = sorted(pair for pair in pairs if math.isfinite(pair[0]))
    rows = []
    for number in range(groups):
        part = ordered[len(ordered) * number // groups : len(ordered) * (number + 1) // groups]
        if part:
            rows.append((part[-1][0], len(part), math.fsum(change for _, change in part) / len(part)))
    return rows


def _spans(pack: EvidencePack) -> set[tuple[NodeId, int, int]]:
    return {(chunk.node, chunk.start, chunk.end) for chunk in pack.chunks}
