"""Scores of a model over all clients."""

from __future__ import annotations

from dataclasses import dataclass

from fedtag.common.numerics.scores import Tally


@dataclass(frozen=True)
class PooledScores:
    """The scores of a model over all clients, by the way of scoring that is best on validation."""

    path: str
    val: Tally
    test: Tally
