"""By what the released round is chosen: a mean over clients that one of them cannot move at will."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import pstdev

from fedtag.common.numerics.scores import Tally
from fedtag.common.numerics.shares import capped_shares

FEWEST_TRIMMED = 5
"""Clients from which on the lowest and the highest value count for nothing."""


def selection(tallies: Mapping[str, Tally], most: float, metric: str = "accuracy") -> float | None:
    """The mean of a metric over clients, weighted by their capped numbers of nodes, trimmed by one at each end.

    A client for which it is undefined has no part in the mean: one without a validation node; of the areas, one whose
    validation nodes are all of one class.

    Args:
        tallies: of the validation nodes, by client.
        most: `aggregation.max-share`.
        metric: `evaluation.metric`.

    Returns:
        A fraction; None where it is undefined for every client.
    """
    ranked = sorted(
        (value, client) for client, tally in tallies.items() if (value := tally.value(metric)) is not None
    )
    if len(ranked) >= FEWEST_TRIMMED:
        ranked = ranked[1:-1]
    if not ranked:
        return None
    nodes = {client: tallies[client].nodes for _, client in ranked}
    total = sum(nodes.values())
    shares = capped_shares({client: count / total for client, count in nodes.items()}, most)
    return math.fsum(shares[client] * value for value, client in ranked)


def spread(tallies: Mapping[str, Tally]) -> float | None:
    """The standard deviation of accuracies over the clients that have any node; None for fewer than two of them."""
    accuracies = [tally.accuracy for tally in tallies.values() if tally.accuracy is not None]
    return pstdev(accuracies) if len(accuracies) > 1 else None
