"""Files of arrays: graphs of PyTorch Geometric, which torch saved, and feature graphs of NumPy."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtag.client.data.assembly import Reading
from fedtag.client.data.problems import Problems
from fedtag.client.data.reading.forms import ARCHIVE, form_of
from fedtag.client.data.sources import inspected_arrays
from fedtag.client.data.splitting import drawn_split
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural
from fedtag.graph.frames import EdgeColumns, NodeColumns, read_frames
from fedtag.graph.importing.account import READ, Account, raise_any
from fedtag.graph.importing.compression import check_members
from fedtag.graph.importing.recipe import Recipe
from fedtag.graph.importing.source import refused
from fedtag.graph.networks import tensor_frames

TEXTS = ("raw_texts", "raw_text", "texts", "text")
CLASSES = ("label_names", "label_name", "class_names", "classes")
"""What graphs of PyTorch Geometric call the texts of nodes and the names of classes."""
OF_TABLES = (
    *(
        "edges",
        "id",
        "label",
        "split",
        "src",
        "dst",
        "weight",
        "edges_from",
        "edges_from_column",
        "edges_knn",
    ),
    *("list_separator", "map", "directed", "encoding", "separator"),
)
"""What is asked of tables alone."""


def holds_arrays(path: Path) -> bool:
    """Whether a file is an archive of arrays, which NumPy or torch wrote."""
    if form_of(path) is not ARCHIVE or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith((".npy", "data.pkl")) for name in archive.namelist())


def array_reading(
    path: Path, recipe: Recipe, name: str, given: Mapping[str, int], account: Account
) -> Reading:
    """The graph of a file of arrays, checked as everywhere.

    Args:
        path: of the file.
        recipe: with classes and, of a graph of PyTorch Geometric, the attribute that holds texts.
        name: of the graph.
        given: splits of nodes that keep theirs where one is drawn.
        account: told what was read.

    Raises:
        DataError: something is wrong with it, or columns are named where there are none.
    """
    strange = [field for field in OF_TABLES if getattr(recipe, field)]
    if strange:
        raise DataError(f"{path.name} holds arrays and no columns: leave out {strange[0]}=.")
    check_members(path)
    with zipfile.ZipFile(path) as archive:
        of_torch = any(one.endswith("data.pkl") for one in archive.namelist())
    problems = Problems()
    reading = _of_torch(path, recipe, problems, account) if of_torch else inspected_arrays(path, problems)
    raise_any(problems, {})
    assert reading is not None
    graph = replace(reading.graph, name=name)
    # It was drawn by seed 0, for want of another.
    if reading.drawn and (recipe.seed or given):
        graph = replace(graph, split=drawn_split(graph.node_ids, graph.labels, recipe.seed, given))
    if recipe.classes and not of_torch:
        if len(recipe.classes) < len(graph.classes):
            counts = f"{len(graph.classes)} classes, and {len(recipe.classes)} are named"
            raise DataError(f"{path.name}: y has {counts}; name all with classes=.")
        graph = replace(graph, classes=tuple(recipe.classes))
    features = "" if graph.features is None else f", {graph.features.shape[1]:,} features a node"
    form = "a graph of PyTorch Geometric" if of_torch else "arrays of NumPy"
    account.tell(READ, f"{path.name}: {form}; {plural(graph.num_nodes, 'node')}{features}")
    return replace(reading, graph=graph)


def _of_torch(path: Path, recipe: Recipe, problems: Problems, account: Account) -> Reading | None:
    data = _loaded(path)
    names = recipe.text or [one for one in TEXTS if _is_list(getattr(data, one, None))][:1]
    lacking = [one for one in names if not _is_list(getattr(data, one, None))]
    if lacking or len(names) > 1:
        there = ", ".join(sorted(data.keys()))
        raise refused(
            path.name, f"holds no list of texts {', '.join(names)} (found: {there})", "name one with text="
        )
    texts = getattr(data, names[0]) if names else None
    if names:
        account.tell(READ, f"texts are {names[0]}")
    classes = [getattr(data, one) for one in CLASSES if _is_list(getattr(data, one, None))]
    named = next(iter([recipe.classes] if recipe.classes else classes), None)
    frames = tensor_frames(data, texts, named, problems)
    if frames is None:
        return None
    found = [one if one in frames.nodes else None for one in ("text", "label", "split")]
    columns = NodeColumns("node", *found)
    reading, _ = read_frames(
        frames.nodes,
        frames.edges,
        columns,
        EdgeColumns("src", "dst", "weight"),
        problems,
        features=frames.features,
        classes=frames.classes,
        directed=frames.directed,
        name=path.stem,
        seed=recipe.seed,
    )
    return reading


def _loaded(path: Path) -> Any:
    """What torch saved, of which nothing but tensors, texts and PyTorch Geometric's own containers are made."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # What the file asks for and torch refuses to make is told in many ways.
        what = "is not a graph of PyTorch Geometric alone (it holds other objects, or is damaged)"
        raise refused(path.name, what, "save one Data with torch.save") from error
    # A data set of one graph is saved as its content beside indices, and some save what a graph holds.
    while isinstance(held, tuple | list) and held:
        held = held[0]
    return Data.from_dict(held) if isinstance(held, dict) else held


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)
