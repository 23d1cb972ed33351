"""Graphs of NetworkX and PyTorch Geometric as tables of nodes and edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.arrays import MASKS, labels_of, pairs_of, split_of
from fedtag.client.data.text_graph import SPLIT_NAMES
from fedtag.common.wording.counts import plural

if TYPE_CHECKING:
    import networkx as nx

GRAPH = "graph"


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
    arrays = {
        name: value.detach().cpu().numpy()
        for name in ("y", "edge_index", "edge_weight", *(mask for mask, _ in MASKS))
        if (value := getattr(data, name, None)) is not None
    }
    count = int(data.num_nodes)
    columns: dict[str, Any] = {"node": np.arange(count)}
    if texts is not None:
        if len(texts) != count:
            problems.add(
                "texts", f"there are {len(texts)} for {plural(count, 'node')}", "give one a node, '' for none"
            )
            return None
        columns["text"] = list(texts)
    told = len(problems.found)
    pairs = pairs_of(GRAPH, arrays, count, problems)
    labels = labels_of(GRAPH, arrays, count, problems) if "y" in arrays else np.full(count, -1)
    if pairs is None or labels is None:
        return None
    named = tuple(classes) if classes is not None else None
    if "y" in arrays:
        named = named or tuple(str(label) for label in range(int(labels.max(initial=0)) + 1))
        if labels.max(initial=0) >= len(named):
            what = f"y is {labels.max()}, the number of no class of {len(named)}"
            problems.add(GRAPH, what, "name all with classes=")
            return None
        columns["label"] = np.array([*named, None], dtype=object)[labels]
    if any(name in arrays for name, _ in MASKS):
        split = split_of(GRAPH, arrays, labels, problems)
        columns["split"] = np.array([None, *SPLIT_NAMES[1:]], dtype=object)[split]
    if len(problems.found) > told:
        return None
    weights = arrays.get("edge_weight", np.ones(len(pairs), np.float32)).reshape(-1)
    if len(weights) != len(pairs):
        problems.add(
            GRAPH, f"edge_weight holds {len(weights)} values for {len(pairs)} edges", "give one an edge"
        )
        return None
    edges = pd.DataFrame({"src": pairs[:, 0], "dst": pairs[:, 1], "weight": weights})
    features = getattr(data, "x", None) if texts is None else None
    # Whoever has such a graph has loaded both.
    import torch
    from torch_geometric.utils import is_undirected

    directed = not is_undirected(torch.from_numpy(pairs.T.copy()), num_nodes=count)
    if features is not None:
        features = (
            (features if features.layout == torch.strided else features.to_dense()).detach().cpu().numpy()
        )
    return Frames(pd.DataFrame(columns), edges, features, named, directed)
