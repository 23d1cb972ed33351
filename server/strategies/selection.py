"""By what the released round is chosen: a mean over clients that one of them cannot move at will."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import pstdev

from fedtag.common.numerics.scores import Tally
from fedtag.common.numerics.shares import capped_shares

FEWEST_TRIMMED = 5
"""Clients from which on the lowest and the highest accuracy count for nothing."""


def selection(tallies: Mapping[str, Tally], most: float) -> float | None:
    """The mean accuracy over clients, weighted by their capped numbers of nodes, trimmed by one at each end.

    Args:
        tallies: of the validation nodes, by client.
        most: `aggregation.max-share`.

    Returns:
        A fraction; None without any validation node.
    """
    ranked = sorted(
        (tally.accuracy, client) for client, tally in tallies.items() if tally.accuracy is not None
    )
    if len(ranked) >= FEWEST_TRIMMED:
        ranked = ranked[1:-1]
    if not ranked:
        return None
    nodes = {client: tallies[client].nodes for _, client in ranked}
    total = sum(nodes.values())
    shares = capped_shares({client: count / total for client, count in nodes.items()}, most)
    return math.fsum(shares[client] * accuracy for accuracy, client in ranked)


def spread(tallies: Mapping[str, Tally]) -> float | None:
    """The standard deviation of accuracies over the clients that have any node; None for fewer than two of them."""
    accuracies = [tally.accuracy for tally in tallies.values() if tally.accuracy is not None]
    return pstdev(accuracies) if len(accuracies) > 1 else None
