"""Graphs of NetworkX and PyTorch Geometric as tables of nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.sources import first_mask
from fedtag.client.data.text_graph import SPLIT_NAMES

if TYPE_CHECKING:
    import networkx as nx

GRAPH = "graph"
MASKS = {f"{name}_mask": name for name in SPLIT_NAMES[1:]}


@dataclass(frozen=True)
class Frames:
    """A graph as tables.

    Args:
        nodes: columns node, and of text, label and split those that there are.
        edges: columns src, dst, weight.
        features: [nodes, d], or None.
        classes: by their numbers, in the order of these, or as they were given.
        directed: whether some edge is there in one direction only.
    """

    nodes: pd.DataFrame
    edges: pd.DataFrame
    features: Any
    classes: tuple[str, ...] | None
    directed: bool


def network_frames(
    graph: nx.Graph[Any],
    attributes: Mapping[str, str | None],
    weight: str | None,
    features: str | None,
    classes: Sequence[str] | None,
    problems: Problems,
) -> Frames | None:
    """A graph of NetworkX as tables; None where something is wrong with it.

    Args:
        graph: with attributes at its nodes.
        attributes: names of those that are text, label and split, where there are such.
        weight, features: names of attributes of edges and of nodes.
        classes: as they were given.
        problems: receives every fault.
    """
    ids = list(graph)
    strange = [node for node in ids if not isinstance(node, int | str | np.integer)]
    if strange:
        what = f"node {shown(strange[0])} is neither a whole number nor a text"
        problems.add(GRAPH, what, "rename nodes with networkx.relabel_nodes")
    columns: dict[str, list[Any]] = {"node": ids}
    for ours, theirs in attributes.items():
        if theirs is None:
            continue
        columns[ours] = [graph.nodes[node].get(theirs) for node in ids]
        if all(value is None for value in columns[ours]):
            there = sorted({str(key) for node in ids for key in graph.nodes[node]})
            problems.add(GRAPH, f"no node has {theirs}", f"use one of {', '.join(there) or 'none'}")
    if (
        weight is not None
        and graph.number_of_edges()
        and all(weight not in data for *_, data in graph.edges(data=True))
    ):
        there = sorted({str(key) for *_, data in graph.edges(data=True) for key in data})
        problems.add(GRAPH, f"no edge has {weight}", f"use one of {', '.join(there) or 'none'}")
    matrix = None
    if features is not None:
        vectors = [graph.nodes[node].get(features) for node in ids]
        try:
            matrix = np.asarray(vectors, np.float32)
        except (TypeError, ValueError):
            matrix = None
        if matrix is None or matrix.ndim != 2 or not np.isfinite(matrix).all():
            problems.add(GRAPH, f"{features} is no vector of one length at every node", "give each node one")
    if problems.found:
        return None
    rows = [(a, b, 1.0 if weight is None else data.get(weight, 1.0)) for a, b, data in graph.edges(data=True)]
    edges = pd.DataFrame(rows, columns=["src", "dst", "weight"])
    named = None if classes is None else tuple(classes)
    return Frames(pd.DataFrame(columns), edges, matrix, named, graph.is_directed())


def tensor_frames(
    data: Any, texts: Sequence[str] | None, classes: Sequence[str] | None, problems: Problems
) -> Frames | None:
    """A graph of PyTorch Geometric as tables; None where something is wrong with it."""
    if getattr(data, "edge_index", None) is None or not hasattr(data, "num_nodes"):
        what = f"{shown(type(data).__name__)} has no edge_index of one graph"
        problems.add(GRAPH, what, "give one torch_geometric.data.Data; a dataset has it at [0]")
        return None
    # Whoever has such a graph has loaded both.
    import torch
    from torch_geometric.utils import is_undirected

    count = int(data.num_nodes)
    columns: dict[str, Any] = {"node": np.arange(count)}
    if texts is not None:
        if len(texts) != count:
            problems.add("texts", f"there are {len(texts)} for {count} nodes", "give one a node, '' for none")
            return None
        columns["text"] = list(texts)
    named = tuple(classes) if classes is not None else None
    labels = _labels(data, count, problems)
    if labels is not None:
        if named is None:
            named = tuple(str(label) for label in range(int(labels.max(initial=0)) + 1))
        if labels.max(initial=0) >= len(named):
            problems.add(
                "y", f"{labels.max()} is the number of no class of {len(named)}", "name all with classes="
            )
            return None
        columns["label"] = np.array([*named, None], dtype=object)[labels]
    split = _split(data, count, labels, problems)
    if split is not None:
        columns["split"] = split
    if problems.found:
        return None
    edges = _edges(data)
    features = getattr(data, "x", None) if texts is None else None
    if features is not None and (features.layout != torch.strided):
        features = features.to_dense()
    matrix = None if features is None else features.detach().cpu().numpy()
    directed = not is_undirected(data.edge_index, num_nodes=count)
    return Frames(pd.DataFrame(columns), edges, matrix, named, directed)


def _labels(data: Any, count: int, problems: Problems) -> Any:
    y = getattr(data, "y", None)
    if y is None:
        return None
    labels = y.detach().cpu().numpy()
    labels = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        what = f"the shape is {list(labels.shape)} of {labels.dtype}, but must be [{count}] whole numbers"
        problems.add("y", what, "give one class a node, -1 where it has none")
        return None
    return labels


def _split(data: Any, count: int, labels: Any, problems: Problems) -> Any:
    """The names of the splits by the masks; a node without a label is in none, as elsewhere in this format."""
    masks = {name: getattr(data, mask, None) for mask, name in MASKS.items()}
    if all(mask is None for mask in masks.values()):
        return None
    split = np.full(count, None, dtype=object)
    seen = np.zeros(count, bool)
    for name, mask in masks.items():
        if mask is None:
            continue
        first = first_mask(mask)
        if first.shape != (count,) or first.dtype != bool:
            what = (
                f"is {first.dtype} of the shape {list(first.shape)}, and must be [{count}] of true and false"
            )
            problems.add(f"{name}_mask", what, "make it a mask")
            return None
        if (first & seen).any():
            problems.add(f"{name}_mask", "has nodes that another mask has", "put each node into one of them")
            return None
        seen |= first
        if labels is not None:
            split[first & (labels >= 0)] = name
    return split


def _edges(data: Any) -> pd.DataFrame:
    source, target = data.edge_index.detach().cpu().numpy()
    weight = getattr(data, "edge_weight", None)
    weights = (
        np.ones(len(source), np.float32) if weight is None else weight.detach().cpu().numpy().reshape(-1)
    )
    return pd.DataFrame({"src": source, "dst": target, "weight": weights})
