"""From tables to a graph: what the contract asks of nodes, edges, features and metadata, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedtag.client.data import checks
from fedtag.client.data.metadata import Metadata
from fedtag.client.data.problems import Problems
from fedtag.client.data.reading.arrays import LARGEST_FEATURE
from fedtag.client.data.splitting import drawn_split, untrainable
from fedtag.client.data.tables import Table
from fedtag.client.data.text_graph import NONE, CrossEdges, NodeId, TextGraph, canonical_edges

NODE_COLUMNS = ("node_id", "text", "label", "split")
FOLDER_FEATURES = "features.npy"
"""The file of a data folder with features that are used in place of encoded texts."""
NEEDS_LABELS = "write labels in it: training needs some, fedtag predict takes the folder as it is"


@dataclass(frozen=True)
class Parts:
    """What a graph is put together from, before it is checked; None is missing, which has been told where it matters.

    Args:
        meta: name, classes and direction.
        nodes: columns node_id, text, label, split; further ones are kept.
        edges: src, dst, weight.
        cross: src, dst, peer, weight.
        features: an array of any shape and type, from `features_name`.
        features_name: what a person knows it by.
        split_seed: of the split that is drawn where the nodes have no column for it.
        split_given: splits of nodes that stay where they are when one is drawn, by id.
    """

    meta: Metadata | None
    nodes: Table | None
    edges: Table | None
    cross: Table | None = None
    features: Any = None
    features_name: str = FOLDER_FEATURES
    split_seed: int = 0
    split_given: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Repairs:
    """What reading put right or took note of, without dropping a node.

    Args:
        self_loops: edges from a node to itself, left out.
        duplicate_edges: edges named again (in either direction where undirected), left out; the first
            one's weight counts.
        empty_texts: nodes whose text is absent or only white space.
        isolated_nodes: nodes without an edge inside the graph.
    """

    self_loops: int = 0
    duplicate_edges: int = 0
    empty_texts: int = 0
    isolated_nodes: int = 0


@dataclass(frozen=True)
class Reading:
    """A graph, and what was repaired on the way."""

    graph: TextGraph
    repairs: Repairs = Repairs()

    @property
    def drawn(self) -> bool:
        """Whether the split was drawn."""
        return self.graph.split_drawn


def assembled(
    parts: Parts, problems: Problems, require_training: bool = True, to_predict: bool = False
) -> Reading | None:
    """The graph of parts that keep the contract.

    Args:
        parts: of the graph.
        problems: receives every fault.
        require_training, to_predict: as for `read_folder`, where a model's classes are given to predict.

    Returns:
        None where something is wrong, here or before.
    """
    nodes, meta = parts.nodes, parts.meta
    ids = _node_ids(nodes, problems) if nodes is not None else None
    texts = _texts(nodes, problems) if nodes is not None else ()
    labels, split = _supervision(parts, ids, require_training, to_predict, problems)
    pairs, weights = _edges(parts.edges, ids, problems)
    cross_edges, repeated_cross = _cross_edges(parts.cross, ids, problems)
    features = _features(parts, problems)
    if problems.found:
        return None
    assert nodes is not None
    assert ids is not None
    assert meta is not None

    unique, unique_weights, loops, duplicates = canonical_edges(pairs, weights, meta.directed)
    graph = TextGraph(
        name=meta.name,
        node_ids=tuple(ids.to_pylist()),
        texts=texts,
        labels=labels,
        split=split,
        edges=unique,
        edge_weights=unique_weights,
        classes=meta.classes,
        directed=meta.directed,
        features=features,
        cross_edges=cross_edges,
        extra={name: column for name, column in nodes.columns.items() if name not in NODE_COLUMNS},
        split_drawn=(meta.split_drawn or "split" not in nodes.columns) and bool((split != NONE).any()),
    )
    repairs = Repairs(
        self_loops=loops,
        duplicate_edges=duplicates + repeated_cross,
        empty_texts=texts.count(""),
        isolated_nodes=graph.num_nodes - len(np.unique(unique)),
    )
    return Reading(graph, repairs)


def _node_ids(nodes: Table, problems: Problems) -> pa.Array | None:
    if nodes.missing(("node_id",), problems):
        return None
    if not len(nodes):
        problems.add(nodes.file, "there is no node", "write at least one row")
    ids = checks.identifiers(nodes, "node_id", problems)
    checks.report_repeated(nodes, "node_id", ids, problems)
    return ids


def _texts(nodes: Table, problems: Problems) -> tuple[str, ...]:
    return () if nodes.missing(("text",), problems) else checks.texts(nodes, problems)


def _supervision(
    parts: Parts,
    ids: pa.Array | None,
    require_training: bool,
    to_predict: bool,
    problems: Problems,
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Labels and split; a node can only be in a split if it has a label."""
    nodes, meta = parts.nodes, parts.meta
    size = 0 if nodes is None else len(nodes)
    labels, split = np.full(size, -1, np.int64), np.full(size, NONE, np.int8)
    if nodes is None:
        return labels, split
    known = "label" in nodes.columns and meta is not None
    if "label" not in nodes.columns and not to_predict:
        problems.add(nodes.file, "column label is missing", NEEDS_LABELS)
    if known and meta is not None:
        before = len(problems.found)
        labels = checks.labels(nodes, meta.classes, problems)
        known = len(problems.found) == before
    if "split" in nodes.columns:
        split = checks.splits(nodes, problems)
    elif known and ids is not None and not to_predict:
        split = drawn_split(ids.to_pylist(), labels, parts.split_seed, parts.split_given)
    if known and not to_predict:
        problems.add_rows(
            nodes.file,
            "a node without a label is in a split",
            nodes.numbers((labels < 0) & (split != NONE)),
            "give it a label or empty its split",
        )
    if require_training and known and size and (fault := untrainable(labels, split)):
        problems.add(nodes.file, *fault)
    return labels, split


def _edges(
    edges: Table | None, ids: pa.Array | None, problems: Problems
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    nothing = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    # A file of JSON lines without a line names no column.
    if edges is None or not (len(edges) or edges.columns) or edges.missing(("src", "dst"), problems):
        return nothing
    weights = checks.weights(edges, problems)
    ends = [_ends(edges, name, ids, problems) for name in ("src", "dst")]
    checks.report_heavy(edges, ends, weights, problems)
    return np.stack(ends, axis=1), weights


def _ends(table: Table, name: str, ids: pa.Array | None, problems: Problems) -> NDArray[np.int64]:
    references = checks.identifiers(table, name, problems)
    if ids is None:
        return np.zeros(len(table), np.int64)
    rows = checks.positions(ids, references)
    checks.report_unknown(table, name, references, rows, problems)
    return rows


def _cross_edges(table: Table | None, ids: pa.Array | None, problems: Problems) -> tuple[CrossEdges, int]:
    """The edges into other institutions, and how many were named twice."""
    if table is None or table.missing(("src", "dst", "peer"), problems):
        return CrossEdges.empty(), 0
    weights = checks.weights(table, problems)
    source = _ends(table, "src", ids, problems)
    checks.report_heavy(table, [source], weights, problems)
    foreign: list[NodeId] = checks.identifiers(table, "dst", problems).to_pylist()
    column = table.columns["peer"]
    peers = [str(value) if value is not None else "" for value in column.to_pylist()]
    unnamed = np.array([not peer for peer in peers], bool)
    problems.add_rows(table.file, "peer is empty", table.numbers(unnamed), "name the other institution")
    first = dict.fromkeys(zip(source.tolist(), foreign, peers, strict=True))
    place = {
        key: row for row, key in reversed(list(enumerate(zip(source.tolist(), foreign, peers, strict=True))))
    }
    rows = np.array([place[key] for key in first], np.int64)
    cross = CrossEdges(source, tuple(foreign), tuple(peers), weights)
    return cross.select(rows), len(cross) - len(rows)


def _features(parts: Parts, problems: Problems) -> NDArray[np.float32] | None:
    values, name, nodes = parts.features, parts.features_name, parts.nodes
    if values is None:
        return None
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu" or values.ndim != 2:
        problems.add(name, "must be one float32 array of the shape [nodes, d]", "save it with numpy.save")
        return None
    if values.shape[1] == 0 or (nodes is not None and len(values) != len(nodes)):
        expected = "nodes" if nodes is None else len(nodes)
        problems.add(
            name,
            f"the shape is {list(values.shape)} but must be [{expected}, d], d >= 1",
            "write one row a node, in the order of the nodes file",
        )
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(single).all(axis=1)) + 1
    problems.add_rows(name, "there is a NaN or infinite value", bad, "replace it by a finite number")
    with np.errstate(invalid="ignore"):
        large = np.flatnonzero((np.isfinite(single) & (np.abs(single) > LARGEST_FEATURE)).any(axis=1)) + 1
    problems.add_rows(name, f"there is a value beyond ±{LARGEST_FEATURE:g}", large, "scale the features down")
    return single
