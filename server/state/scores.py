"""Scores of a model over all clients."""

from __future__ import annotations

from dataclasses import dataclass

from fedtag.common.numerics.scores import Tally


@dataclass(frozen=True)
class PooledScores:
    """The scores of a model over all clients, by the way of scoring that is best on validation.

    Args:
        path: that way.
        val, test: counts over all nodes of a split.
        selection: by what the released round is chosen, a fraction; None without a validation node.
        val_spread, test_spread: standard deviations over clients of their accuracies; None for fewer than two.
    """

    path: str
    val: Tally
    test: Tally
    selection: float | None = None
    val_spread: float | None = None
    test_spread: float | None = None
