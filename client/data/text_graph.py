"""One institution's graph in memory: identifiers, texts, labels, split and edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fedtag.common.errors import DataError
from fedtag.common.graph import Graph

NONE, TRAIN, VAL, TEST = 0, 1, 2, 3
SPLIT_NAMES = ("none", "train", "val", "test")

NodeId = str | int
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CrossEdges:
    """Edges from own nodes into other institutions, which both ends know.

    Args:
        source: row of the own node, int64 [c]. In a directed graph it is the edge's source.
        foreign: id of the other node, at its institution.
        peer: name of that institution.
        weight: float32 [c], non-negative.
    """

    source: Rows
    foreign: tuple[NodeId, ...]
    peer: tuple[str, ...]
    weight: NDArray[np.float32]

    @classmethod
    def empty(cls) -> CrossEdges:
        return cls(np.zeros(0, np.int64), (), (), np.zeros(0, np.float32))

    def __len__(self) -> int:
        return len(self.foreign)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CrossEdges) and _same_fields(self, other)

    def select(self, keep: NDArray[np.bool_] | Rows) -> CrossEdges:
        """The entries at the given positions, or where the mask holds."""
        positions = np.arange(len(self))[keep]
        return CrossEdges(
            self.source[positions],
            tuple(self.foreign[i] for i in positions),
            tuple(self.peer[i] for i in positions),
            self.weight[positions],
        )


@dataclass(frozen=True, eq=False)
class TextGraph:
    """A graph whose nodes carry text.

    Args:
        name: of the data set or institution.
        node_ids: n unique identifiers, all of one type.
        texts: n texts, '' where a node has none.
        labels: int64 [n], index into `classes`, -1 where unlabelled.
        split: int8 [n] of `NONE`, `TRAIN`, `VAL`, `TEST`.
        edges: int64 [E, 2], pairs of rows, unique, sorted, no self-loops. Undirected: each edge once,
            smaller row first. Directed: source, target.
        edge_weights: float32 [E], non-negative.
        classes: names of the classes, agreed by the federation.
        directed: whether an edge is followed in one direction only.
        features: float32 [n, d], used in place of encoded text.
        cross_edges: edges into other institutions.
        extra: further columns of the nodes file, by name, n values each.
        split_drawn: whether the data came without a split, so that the usual one was drawn.
    """

    name: str
    node_ids: tuple[NodeId, ...]
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    split: NDArray[np.int8]
    edges: NDArray[np.int64]
    edge_weights: NDArray[np.float32]
    classes: tuple[str, ...]
    directed: bool = False
    features: NDArray[np.float32] | None = None
    cross_edges: CrossEdges = field(default_factory=CrossEdges.empty)
    extra: Mapping[str, pa.Array] = field(default_factory=dict)
    split_drawn: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextGraph) and _same_fields(self, other)

    @property
    def num_nodes(self) -> int:
        return len(self.node_ids)

    def extra_ids(self, column: str) -> NDArray[np.int64]:
        """An extra column of whole numbers, e.g. the ids that a published partition uses."""
        if column not in self.extra:
            known = ", ".join(sorted(self.extra)) or "none"
            raise DataError(f"The nodes of {self.name!r} have no column {column!r}; extra columns: {known}.")
        try:
            values = self.extra[column].cast(pa.int64())
        except pa.ArrowInvalid:
            values = None
        if values is None or values.null_count:
            raise DataError(f"Column {column!r} of {self.name!r} must hold a whole number for every node.")
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.int64)

    def to_graph(self, x: Float[Tensor, "nodes dim"]) -> Graph:
        """The tensors on which models compute; `x` are the node features, in row order."""
        if x.shape[0] != self.num_nodes:
            raise DataError(
                f"{x.shape[0]} feature rows were given for the {self.num_nodes} nodes of {self.name!r}."
            )
        edges = torch.from_numpy(self.edges.T.copy())
        weights = torch.from_numpy(self.edge_weights.copy())
        if not self.directed:
            edges = torch.cat([edges, edges.flip(0)], dim=1)
            weights = torch.cat([weights, weights])
        labelled = self.labels >= 0
        return Graph(
            x=x,
            edge_index=edges,
            edge_weight=weights,
            y=torch.from_numpy(self.labels.copy()),
            train_mask=torch.from_numpy((self.split == TRAIN) & labelled),
            val_mask=torch.from_numpy((self.split == VAL) & labelled),
            test_mask=torch.from_numpy((self.split == TEST) & labelled),
            num_classes=len(self.classes),
        )

    def subgraph(self, rows: Rows) -> TextGraph:
        """The induced graph on unique `rows`, in that order, with the cross edges of these nodes."""
        position = np.full(self.num_nodes, -1, np.int64)
        position[rows] = np.arange(len(rows))
        ends = position[self.edges]
        inside = (ends >= 0).all(axis=1)
        edges, weights, _, _ = canonical_edges(ends[inside], self.edge_weights[inside], self.directed)
        cross = self.cross_edges.select(position[self.cross_edges.source] >= 0)
        taken = pa.array(rows, pa.int64())
        return replace(
            self,
            node_ids=tuple(self.node_ids[row] for row in rows),
            texts=tuple(self.texts[row] for row in rows),
            labels=self.labels[rows],
            split=self.split[rows],
            edges=edges,
            edge_weights=weights,
            features=None if self.features is None else self.features[rows],
            cross_edges=replace(cross, source=position[cross.source]),
            extra={name: column.take(taken) for name, column in self.extra.items()},
        )


def canonical_edges(
    pairs: NDArray[np.int64], weights: NDArray[np.float32], directed: bool
) -> tuple[NDArray[np.int64], NDArray[np.float32], int, int]:
    """Edges as `TextGraph` holds them; the first of several equal edges gives the weight.

    Returns:
        edges, weights, number of self-loops left out, number of duplicates left out.
    """
    pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
    proper = pairs[:, 0] != pairs[:, 1]
    loops = int((~proper).sum())
    pairs, weights = pairs[proper], np.asarray(weights, np.float32)[proper]
    if not directed:
        pairs = np.sort(pairs, axis=1)
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, weights = pairs[order], weights[order]
    first = np.ones(len(pairs), bool)
    first[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    return pairs[first], weights[first], loops, int((~first).sum())


def _same_fields(left: CrossEdges | TextGraph, right: CrossEdges | TextGraph) -> bool:
    return all(_same(getattr(left, part.name), getattr(right, part.name)) for part in fields(left))


def _same(left: object, right: object) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(left[key].equals(right[key]) for key in left)
    return type(left) is type(right) and left == right
