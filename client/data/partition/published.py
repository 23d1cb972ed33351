"""Partitions that others have published, so that results can be compared on the very same clients."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtag.client.data.problems import ROWS_SHOWN
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, Rows, TextGraph
from fedtag.common.errors import DataError

PLANETOID_COLUMN = "planetoid_index"
MASKS = (("train", TRAIN), ("val", VAL), ("test", TEST))


@dataclass(frozen=True)
class Published:
    """A partition as a file gives it.

    Args:
        rows: rows of each client, sorted.
        split: the file's own split of the nodes, int8 [n]; None where it has none.
    """

    rows: tuple[Rows, ...]
    split: NDArray[np.int8] | None


def read_published(path: str | Path, graph: TextGraph, ids_column: str | None = None) -> Published:
    """Reads a partition file for a graph.

    .json: {"clients": [{"node_ids": [...]}, ...]}, or "planetoid_ids" in place of "node_ids".
    .npz: nodes_0, nodes_1, ... and optionally masks train_i, val_i, test_i over nodes_i.
    Ids are those of `ids_column`; without it, planetoid_ids and .npz ids are looked up in the extra
    column planetoid_index where the graph has it, all others among the node ids.

    Raises:
        DataError: if the file is malformed, names a node twice or an unknown one, leaves one out, or
            leaves a client empty.
    """
    file = Path(path)
    try:
        if file.suffix == ".npz":
            clients, split, planetoid = _read_npz(file)
        else:
            clients, planetoid = _read_json(file)
            split = None
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise DataError(
            f"{file.name} is not a partition ({error}); expected a .json with clients and node_ids, "
            "or a .npz with nodes_0, nodes_1, ..."
        ) from error
    column = ids_column
    if column is None and planetoid and PLANETOID_COLUMN in graph.extra:
        column = PLANETOID_COLUMN
    ids: Any = graph.node_ids if column is None else graph.extra_ids(column).tolist()
    row_of = {node: row for row, node in enumerate(ids)}
    named = [node for client in clients for node in client]
    problems = []
    unknown = [node for node in named if node not in row_of]
    if unknown:
        problems.append(f"{file.name}: {_some(unknown)} are not ids of nodes of {graph.name!r}.")
    if len(set(named)) < len(named):
        counts: dict[Any, int] = {}
        for node in named:
            counts[node] = counts.get(node, 0) + 1
        repeated = [node for node, count in counts.items() if count > 1]
        problems.append(
            f"{file.name}: {_some(repeated)} are named more than once; give each node one client."
        )
    left_out = row_of.keys() - set(named)
    if left_out:
        ordered = [node for node in ids if node in left_out]
        problems.append(f"{file.name}: {_some(ordered)} of {graph.name!r} are in no client; add them to one.")
    empty = [str(client) for client, nodes in enumerate(clients) if not nodes]
    if empty or not clients:
        problems.append(
            f"{file.name}: client {', '.join(empty) or 0} has no node; give it one or leave it out."
        )
    if problems:
        raise DataError(problems)
    rows = [np.array([row_of[node] for node in client], np.int64) for client in clients]
    whole = None
    if split is not None:
        whole = np.full(graph.num_nodes, NONE, np.int8)
        for members, own in zip(rows, split, strict=True):
            whole[members] = own
    return Published(tuple(np.sort(members) for members in rows), whole)


def with_published_split(graph: TextGraph, path: str | Path, ids_column: str | None = None) -> TextGraph:
    """The graph with the split of a partition file; unchanged where the file has no masks.

    For `--split given` together with a partition file.
    """
    split = read_published(path, graph, ids_column).split
    if split is None:
        return graph
    return replace(graph, split=np.where(graph.labels >= 0, split, NONE).astype(np.int8))


def _read_json(file: Path) -> tuple[list[list[Any]], bool]:
    content = json.loads(file.read_text(encoding="utf-8-sig"))
    planetoid = any("planetoid_ids" in client for client in content["clients"])
    key = "planetoid_ids" if planetoid else "node_ids"
    return [list(client[key]) for client in content["clients"]], planetoid


def _read_npz(file: Path) -> tuple[list[list[Any]], list[NDArray[np.int8]] | None, bool]:
    with np.load(file, allow_pickle=False) as arrays:
        count = sum(name.startswith("nodes_") for name in arrays)
        clients = [arrays[f"nodes_{client}"] for client in range(count)]
        if "train_0" not in arrays:
            return [nodes.tolist() for nodes in clients], None, True
        split = []
        for client, nodes in enumerate(clients):
            own = np.full(len(nodes), NONE, np.int8)
            for name, value in MASKS:
                own[arrays[f"{name}_{client}"].astype(bool)] = value
            split.append(own)
    return [nodes.tolist() for nodes in clients], split, True


def _some(nodes: list[Any]) -> str:
    listed = ", ".join(str(node) for node in nodes[:ROWS_SHOWN])
    more = len(nodes) - ROWS_SHOWN
    return f"nodes {listed}" + (f" and {more} more" if more > 0 else "")
