"""Reading an institution's folder: everything that is wrong with it, or the graph that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedtag.client.data import checks
from fedtag.client.data.metadata import META_FILES, Metadata, read_metadata
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.tables import Table, read_table
from fedtag.client.data.text_graph import NONE, TRAIN, CrossEdges, NodeId, TextGraph, canonical_edges
from fedtag.common.errors import DataError

NODE_COLUMNS = ("node_id", "text", "label", "split")
EDGE_COLUMNS = ("src", "dst", "weight")
CROSS_COLUMNS = ("src", "dst", "peer", "weight")


LARGEST_FEATURE = 1e6
"""Beyond this, products of a few layers leave the float32 numbers."""


@dataclass(frozen=True)
class Repairs:
    """What reading put right or took note of, without dropping a node.

    Args:
        self_loops: edges from a node to itself, left out.
        duplicate_edges: edges named again (in either direction where undirected), left out; the first
            one's weight counts.
        empty_texts: nodes whose text is absent or only white space.
        isolated_nodes: nodes without an edge inside the folder.
    """

    self_loops: int
    duplicate_edges: int
    empty_texts: int
    isolated_nodes: int


@dataclass(frozen=True)
class FolderReading:
    """The graph of a folder, and what was repaired on the way."""

    graph: TextGraph
    repairs: Repairs


def read_folder(
    path: str | Path, require_training: bool = True, classes: Sequence[str] | None = None
) -> FolderReading:
    """Reads a folder of nodes, edges and metadata.

    Args:
        path: the folder.
        require_training: whether a folder without a labelled training node is at fault. An institution
            wants to know; a simulated client may well have none.
        classes: those of a model that is to predict. The folder may then lack labels and classes of its own,
            but not have other classes.

    Raises:
        DataError: with every problem found, one sentence per kind, with row numbers and the remedy.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give one with nodes, edges and meta.json.")
    problems = Problems()
    meta_file = _only(folder, META_FILES, problems)
    nodes_file = _only(folder, ("nodes.parquet", "nodes.csv", "nodes.jsonl"), problems)
    edges_file = _only(folder, ("edges.parquet", "edges.csv"), problems)
    cross_file = _only(folder, ("cross_edges.parquet", "cross_edges.csv"), problems, required=False)
    meta = read_metadata(meta_file, problems, classes) if meta_file else None
    nodes = read_table(nodes_file, NODE_COLUMNS, problems) if nodes_file else None
    edges = read_table(edges_file, EDGE_COLUMNS, problems) if edges_file else None
    cross = read_table(cross_file, CROSS_COLUMNS, problems) if cross_file else None

    ids = _node_ids(nodes, problems) if nodes is not None else None
    texts = _texts(nodes, problems) if nodes is not None else ()
    labels, split = _supervision(nodes, meta, require_training, classes is not None, problems)
    pairs, weights = _edges(edges, ids, problems)
    cross_edges, repeated_cross = _cross_edges(cross, ids, problems)
    features = _features(folder / "features.npy", nodes, problems)
    problems.raise_any()
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
    )
    repairs = Repairs(
        self_loops=loops,
        duplicate_edges=duplicates + repeated_cross,
        empty_texts=sum(not text for text in texts),
        isolated_nodes=graph.num_nodes - len(np.unique(unique)),
    )
    return FolderReading(graph, repairs)


def _only(folder: Path, names: Sequence[str], problems: Problems, required: bool = True) -> Path | None:
    """The one file of several names, which is missing or not alone otherwise."""
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) > 1:
        problems.add(f"{' and '.join(file.name for file in found)} are both there; keep one of them.")
    if required and not found:
        problems.add(f"{folder.name}: there is no {' or '.join(names)}; add one.")
    return found[0] if found else None


def _node_ids(nodes: Table, problems: Problems) -> pa.Array | None:
    if nodes.missing(("node_id",), problems):
        return None
    if not len(nodes):
        problems.add(f"{nodes.file}: there is no node; write at least one row.")
    ids = checks.identifiers(nodes, "node_id", problems)
    checks.report_repeated(nodes, "node_id", ids, problems)
    return ids


def _texts(nodes: Table, problems: Problems) -> tuple[str, ...]:
    if nodes.missing(("text",), problems):
        return ()
    column = nodes.columns["text"]
    if not pa.types.is_large_string(column.type):
        if nodes.typed and not (pa.types.is_int64(column.type) or pa.types.is_floating(column.type)):
            problems.add(f"{nodes.file}: text has the type {column.type}; write strings.")
            return ()
        column = column.cast(pa.large_string())
    return tuple(text if text and not text.isspace() else "" for text in column.to_pylist())


def _supervision(
    nodes: Table | None,
    meta: Metadata | None,
    require_training: bool,
    to_predict: bool,
    problems: Problems,
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Labels and split; a node can only be in a split if it has a label."""
    size = 0 if nodes is None else len(nodes)
    labels, split = np.full(size, -1, np.int64), np.full(size, NONE, np.int8)
    if nodes is None:
        return labels, split
    if to_predict and "label" not in nodes.columns:
        known = False
    else:
        known = not nodes.missing(("label",), problems) and meta is not None
    if known and meta is not None:
        before = len(problems.sentences)
        labels = checks.labels(nodes, meta.classes, problems)
        known = len(problems.sentences) == before
    if "split" in nodes.columns:
        split = checks.splits(nodes, problems)
    if known and not to_predict:
        problems.add_rows(
            nodes.file,
            "a node without a label is in a split",
            nodes.numbers((labels < 0) & (split != NONE)),
            "give it a label or empty its split",
        )
    if require_training and size and not (split == TRAIN).any():
        problems.add(
            f"{nodes.file}: there is no training node; set split to train for some labelled nodes, "
            "or draw one with --split."
        )
    return labels, split


def _edges(
    edges: Table | None, ids: pa.Array | None, problems: Problems
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    nothing = np.zeros((0, 2), np.int64), np.zeros(0, np.float32)
    if edges is None or edges.missing(("src", "dst"), problems):
        return nothing
    weights = checks.weights(edges, problems)
    ends = [_ends(edges, name, ids, problems) for name in ("src", "dst")]
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


def _features(path: Path, nodes: Table | None, problems: Problems) -> NDArray[np.float32] | None:
    if not path.is_file():
        return None
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError) as error:
        problems.add(
            f"{path.name}: is not a readable array ({shown(str(error))}); save float32 with numpy.save."
        )
        return None
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu" or values.ndim != 2:
        problems.add(
            f"{path.name}: must be one float32 array of the shape [nodes, d]; save it with numpy.save."
        )
        return None
    if values.shape[1] == 0 or (nodes is not None and len(values) != len(nodes)):
        expected = "nodes" if nodes is None else len(nodes)
        problems.add(
            f"{path.name}: the shape is {list(values.shape)} but must be [{expected}, d], d >= 1; "
            "write one row a node, in the order of the nodes file."
        )
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        single = np.ascontiguousarray(values, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(single).all(axis=1)) + 1
    problems.add_rows(path.name, "there is a NaN or infinite value", bad, "replace it by a finite number")
    with np.errstate(invalid="ignore"):
        large = np.flatnonzero((np.isfinite(single) & (np.abs(single) > LARGEST_FEATURE)).any(axis=1)) + 1
    problems.add_rows(
        path.name, f"there is a value beyond ±{LARGEST_FEATURE:g}", large, "scale the features down"
    )
    return single
