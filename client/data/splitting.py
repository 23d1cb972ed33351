"""Drawing training, validation and test nodes, class by class."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedtag.client.data.fractions import checked_fractions
from fedtag.client.data.text_graph import NONE, SPLIT_NAMES, TEST, TRAIN, VAL, NodeId, Rows, TextGraph
from fedtag.client.data.values import composed
from fedtag.common.randomness import numpy_generator
from fedtag.common.wording.split import USUAL, drawn_words


def drawn_split(
    ids: Sequence[NodeId], labels: Rows, seed: int = 0, given: Mapping[str, int] | None = None
) -> NDArray[np.int8]:
    """The usual split of each class, drawn by the ids of its nodes: whatever their order, it is the same.

    The nodes of a class are sorted by SHA-256 of seed and id; the first 60% of them train, and so on as in `resplit`.
    Where a split is given already, its nodes stay where they are, and the first of the others fill what is missing.

    Args:
        ids: of the nodes.
        labels: class of each, -1 where there is none.
        seed: of the draw.
        given: splits of nodes that have one, by id.
    """
    names = composed(pa.array(map(str, ids), pa.large_string())).to_pylist()
    known = given or {}
    split = np.array([known.get(name, NONE) for name in names], np.int8)
    split[labels < 0] = NONE
    digests = [hashlib.sha256(f"{seed} {name}".encode()).digest() for name in names]
    order = np.argsort(np.array(digests, "S32"), kind="stable")
    for label in np.unique(labels[labels >= 0]):
        members = order[labels[order] == label]
        free = members[split[members] == NONE]
        taken = np.bincount(split[members], minlength=len(SPLIT_NAMES))[1:]
        sizes = np.diff([0, *_ends(USUAL, len(members))]) - taken
        # Where given nodes have more than their share, there are fewer places than nodes in need of one.
        places = np.repeat([TRAIN, VAL, TEST], np.maximum(sizes, 0))[: len(free)]
        split[free[: len(places)]] = places
    return split


def drawn_note(seed: int = 0) -> str:
    """What a person is told of a drawn split."""
    return f"no split was given: {drawn_words()}" + (f" and seed {seed}" if seed else "")


def untrainable(labels: Rows, split: NDArray[np.int8]) -> tuple[str, str] | None:
    """What keeps every node from training, and the remedy; None where one can train."""
    if not (labels >= 0).any():
        remedy = (
            "give some (column label, or the array y of a feature graph); fedtag predict takes data without"
        )
        return "no node has a label, and training needs some", remedy
    if not ((split == TRAIN) & (labels >= 0)).any():
        return (
            "no labelled node is in the split train",
            "mark some, or draw a split with data.split = 0.6,0.2,0.2",
        )
    return None


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
    checked_fractions(fractions)
    generator = numpy_generator(seed, "split")
    split = np.full(graph.num_nodes, NONE, np.int8)
    for label in range(len(graph.classes)):
        members = generator.permutation(np.flatnonzero(graph.labels == label))
        train, val, test = _ends(fractions, len(members))
        split[members[:train]] = TRAIN
        split[members[train:val]] = VAL
        split[members[val:test]] = TEST
    return replace(graph, split=split, split_drawn=False)


def _ends(fractions: Sequence[float], members: int) -> NDArray[np.int64]:
    """Where training, validation and test nodes of a class of so many members end."""
    # The small term keeps 0.6 + 0.2 + 0.2 from losing a node to the float's last bit.
    return np.floor(np.cumsum(fractions) * members + 0.5 + 1e-9).astype(np.int64)
