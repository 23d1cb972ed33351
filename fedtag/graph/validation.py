"""An institution's folder, checked offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedtag.client.data.assembly import Repairs
from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import SPLIT_NAMES, TextGraph

SPLITS = (*SPLIT_NAMES[1:], SPLIT_NAMES[0])
"""The names of the splits in the order in which a person reads them."""
UNLABELLED = "(unlabelled)"


@dataclass(frozen=True)
class ClassCount:
    """The nodes of a class in each of `SPLITS`."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class ValidFolder:
    """A folder that keeps the contract.

    Args:
        graph: what it holds.
        repairs: what reading put right or took note of.
        classes: the nodes of each class, and last those without a label, if there are any.
    """

    graph: TextGraph
    repairs: Repairs
    classes: tuple[ClassCount, ...]


def validate_folder(folder: Path) -> ValidFolder:
    """What a folder holds; nothing is written.

    Raises:
        DataError: with every problem.
    """
    reading = read_folder(folder)
    return ValidFolder(reading.graph, reading.repairs, class_counts(reading.graph))


def class_counts(graph: TextGraph) -> tuple[ClassCount, ...]:
    """Nodes of each class in each split; those without a label last, if there are any."""
    labels = [*enumerate(graph.classes), *([(-1, UNLABELLED)] if (graph.labels < 0).any() else [])]
    codes = [SPLIT_NAMES.index(name) for name in SPLITS]
    return tuple(
        ClassCount(
            name, tuple(int(np.sum((graph.labels == label) & (graph.split == code))) for code in codes)
        )
        for label, name in labels
    )
