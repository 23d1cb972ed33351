"""Drawing training, validation and test nodes, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedtag.client.data.fractions import checked_fractions
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph
from fedtag.common.randomness import numpy_generator

USUAL = (0.6, 0.2, 0.2)
"""Shares of each class that train, validate and test where nobody gives others."""


def resplit(graph: TextGraph, fractions: Sequence[float], seed: int) -> TextGraph:
    """The same graph with a split drawn per class, so that each class has the same fractions.

    Of a class with m nodes, the first round(a m) of a shuffled order train, those up to
    round((a + b) m) validate, those up to round((a + b + c) m) test (halves are rounded up); the rest
    and all unlabelled nodes are in no split.

    Args:
        graph: the whole graph, before it is partitioned.
        fractions: training, validation, test; a > 0, b, c >= 0, a + b + c <= 1.
        seed: of the run.

    Raises:
        ConfigError: if the fractions break these bounds.
    """
    bounds = np.cumsum(checked_fractions(fractions))
    generator = numpy_generator(seed, "split")
    split = np.full(graph.num_nodes, NONE, np.int8)
    for label in range(len(graph.classes)):
        members = generator.permutation(np.flatnonzero(graph.labels == label))
        # The small term keeps 0.6 + 0.2 + 0.2 from losing a node to the float's last bit.
        train, val, test = np.floor(bounds * len(members) + 0.5 + 1e-9).astype(int)
        split[members[:train]] = TRAIN
        split[members[train:val]] = VAL
        split[members[val:test]] = TEST
    return replace(graph, split=split)
