"""Writing a graph as a folder that `read_folder` reads back unchanged."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.data.text_graph import SPLIT_NAMES, NodeId, TextGraph
from fedtag.common.errors import DataError


def write_folder(graph: TextGraph, path: str | Path) -> Path:
    """Writes nodes.parquet, edges.parquet, meta.json and, where there are any, features and cross edges.

    The folder appears complete or not at all: it is written beside its place and renamed. The same
    graph gives the same bytes. A folder that is already there is replaced.

    Returns:
        the folder.
    """
    target = Path(path)
    if target.is_file() or (
        target.is_dir() and not (target / "meta.json").is_file() and any(target.iterdir())
    ):
        raise DataError(f"{target} is there and is not a data folder; choose another place.")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.parent / f".{target.name}-{secrets.token_hex(8)}"
    staging.mkdir()
    try:
        _write_files(graph, staging)
        if target.exists():
            shutil.rmtree(target)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _write_files(graph: TextGraph, folder: Path) -> None:
    names = np.array([*graph.classes, None], dtype=object)
    splits = np.array([None, *SPLIT_NAMES[1:]], dtype=object)
    nodes = {
        "node_id": _ids(graph.node_ids),
        "text": pa.array(graph.texts, pa.large_string()),
        "label": pa.array(names[graph.labels], pa.string()),
        "split": pa.array(splits[graph.split], pa.string()),
        **graph.extra,
    }
    ids = nodes["node_id"]
    edges = {
        "src": ids.take(pa.array(graph.edges[:, 0])),
        "dst": ids.take(pa.array(graph.edges[:, 1])),
        "weight": pa.array(graph.edge_weights, pa.float32()),
    }
    parquet.write_table(pa.table(nodes), folder / "nodes.parquet")
    parquet.write_table(pa.table(edges), folder / "edges.parquet")
    # One without classes is for predictions, which bring theirs.
    classes = {"classes": list(graph.classes)} if graph.classes else {}
    meta = {"name": graph.name, **classes, "directed": graph.directed}
    (folder / "meta.json").write_text(json.dumps(meta, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if graph.features is not None:
        np.save(folder / FOLDER_FEATURES, graph.features, allow_pickle=False)
    cross = graph.cross_edges
    if len(cross):
        columns = {
            "src": ids.take(pa.array(cross.source)),
            "dst": _ids(cross.foreign),
            "peer": pa.array(cross.peer, pa.string()),
            "weight": pa.array(cross.weight, pa.float32()),
        }
        parquet.write_table(pa.table(columns), folder / "cross_edges.parquet")


def _ids(ids: tuple[NodeId, ...]) -> pa.Array:
    if all(isinstance(node, int) for node in ids):
        return pa.array(ids, pa.int64())
    return pa.array([str(node) for node in ids], pa.large_string())
