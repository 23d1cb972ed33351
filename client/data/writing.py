"""Writing a graph as a folder that `read_folder` reads back unchanged."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.data.text_graph import SPLIT_NAMES, NodeId, TextGraph
from fedtag.common.errors import DataError
from fedtag.common.wording.split import DRAWN

META = "meta.json"
TOKEN = 8
"""Bytes that tell folders apart that are written for the same place."""


def write_folder(graph: TextGraph, path: str | Path) -> Path:
    """Writes nodes.parquet, edges.parquet, meta.json and, where there are any, features and cross edges.

    The folder appears complete or not at all, as `replaced_folder` says. The same graph gives the same bytes.

    Returns:
        the folder.

    Raises:
        DataError: something else is at that place.
    """
    with replaced_folder(path) as staging:
        write_graph(graph, staging)
    return Path(path)


@contextmanager
def replaced_folder(path: str | Path) -> Iterator[Path]:
    """A folder beside a place, which takes that place once its files are written; nothing is left of it otherwise.

    A data folder that is already there is replaced. Stopped at any moment, the place has the one, the other or nothing.

    Raises:
        DataError: something else is at that place.
    """
    target = Path(path)
    if target.is_file() or (target.is_dir() and not (target / META).is_file() and any(target.iterdir())):
        raise DataError(f"{target} is there and is not a data folder; choose another place.")
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = target.parent / f".{target.name}-{secrets.token_hex(TOKEN)}"
    former = staging.with_name(f"{staging.name}-former")
    staging.mkdir()
    try:
        yield staging
        if target.exists():
            target.rename(former)
        staging.rename(target)
    finally:
        if former.exists() and not target.exists():
            former.rename(target)
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def leftovers(path: str | Path) -> list[Path]:
    """What writers of a place that were killed left beside it, or what one that is at work has there."""
    target = Path(path).resolve()
    staging = re.compile(rf"\.{re.escape(target.name)}-[0-9a-f]{{{2 * TOKEN}}}(-former)?")
    return sorted(one for one in target.parent.glob(".*") if staging.fullmatch(one.name))


def write_graph(
    graph: TextGraph,
    folder: Path,
    texts: Iterable[pa.Array] | None = None,
    with_split: bool = True,
) -> None:
    """Writes the files of a data folder into one that is there; the description, without which it is none, last.

    Args:
        graph: what is written.
        folder: where.
        texts: those of the nodes in place of the graph's own, in blocks of large_string.
        with_split: whether the nodes get their column `split`.
    """
    names = np.array([*graph.classes, None], dtype=object)
    splits = np.array([None, *SPLIT_NAMES[1:]], dtype=object)
    nodes: dict[str, Any] = {
        "node_id": _ids(graph.node_ids),
        "text": pa.array(graph.texts if texts is None else [], pa.large_string()),
        "label": pa.array(names[graph.labels], pa.string()),
        **({"split": pa.array(splits[graph.split], pa.string())} if with_split else {}),
        **graph.extra,
    }
    ids = nodes["node_id"]
    edges = {
        "src": ids.take(pa.array(graph.edges[:, 0])),
        "dst": ids.take(pa.array(graph.edges[:, 1])),
        "weight": pa.array(graph.edge_weights, pa.float32()),
    }
    if texts is None:
        parquet.write_table(pa.table(nodes), folder / "nodes.parquet")
    else:
        _write_blocks(nodes, texts, folder / "nodes.parquet")
    parquet.write_table(pa.table(edges), folder / "edges.parquet")
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
    # One without classes is for predictions, which bring theirs.
    classes = {"classes": list(graph.classes)} if graph.classes else {}
    drawn = {"split": DRAWN} if with_split and graph.split_drawn else {}
    meta = {"name": graph.name, **classes, "directed": graph.directed, **drawn}
    (folder / META).write_text(json.dumps(meta, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_blocks(nodes: dict[str, Any], texts: Iterable[pa.Array], path: Path) -> None:
    """Writes nodes whose texts come in blocks, each as a row group."""
    schema = pa.schema([(name, column.type) for name, column in nodes.items()])
    first = 0
    # Hardly a text stands twice: a dictionary of them, or the first and last of a block, tell nothing.
    repeated = [name for name in schema.names if name != "text"]
    with parquet.ParquetWriter(path, schema, use_dictionary=repeated, write_statistics=repeated) as writer:
        for block in texts:
            own = {name: column.slice(first, len(block)) for name, column in nodes.items()}
            writer.write_table(pa.table({**own, "text": block}, schema))
            first += len(block)


def _ids(ids: tuple[NodeId, ...]) -> pa.Array:
    if all(issubclass(kind, int) for kind in set(map(type, ids))):
        return pa.array(ids, pa.int64())
    return pa.array([str(node) for node in ids], pa.large_string())
