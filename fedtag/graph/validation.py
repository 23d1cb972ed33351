"""Institutions' data, checked offline as a run checks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedtag.client.data.assembly import Repairs
from fedtag.client.data.federation import read_sources
from fedtag.client.data.split_column import write_split
from fedtag.client.data.text_graph import SPLIT_NAMES, TextGraph
from fedtag.common.errors import ConfigError

SPLITS = (*SPLIT_NAMES[1:], SPLIT_NAMES[0])
"""The names of the splits in the order in which a person reads them."""
UNLABELLED = "(unlabelled)"


@dataclass(frozen=True)
class ClassCount:
    """The nodes of a class in each of `SPLITS`."""

    name: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class ValidData:
    """Data that keep the contract.

    Args:
        source: a folder, or whatever else `--data` may name.
        graph: what it holds; it says itself whether its split was drawn.
        repairs: what reading put right or took note of.
        classes: the nodes of each class, and last those without a label, if there are any.
    """

    source: str
    graph: TextGraph
    repairs: Repairs
    classes: tuple[ClassCount, ...]


def validate_sources(sources: Sequence[str]) -> tuple[ValidData, ...]:
    """What each source holds; several are checked as institutions of one run. Nothing is written.

    Raises:
        DataError: with every problem.
    """
    return tuple(
        ValidData(source, one.graph, one.repairs, class_counts(one.graph))
        for source, one in zip(sources, read_sources(sources), strict=True)
    )


def keep_split(found: ValidData) -> Path | None:
    """Write a drawn split into the nodes file; returns that, None where the data came with a split.

    Raises:
        ConfigError: the data are no folder.
    """
    if not found.graph.split_drawn:
        return None
    if not Path(found.source).is_dir():
        raise ConfigError(f"{found.source} is no folder: a split is written into the nodes file of one")
    return write_split(Path(found.source), found.graph)


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
