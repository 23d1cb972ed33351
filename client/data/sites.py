"""From one graph to a folder per client, and back to one graph for the centralised row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from fedtag.client.data.overlap import overlap_rows
from fedtag.client.data.text_graph import NONE, CrossEdges, NodeId, Rows, TextGraph, canonical_edges
from fedtag.client.data.writing import write_folder
from fedtag.common.errors import DataError

COPIED_FROM = "copied_from"
"""Extra column of a site with overlap: the client that owns the node, null where it is the site itself."""


def site_names(clients: int) -> tuple[str, ...]:
    """client-00, client-01, ...: padded so that the order of names is that of numbers."""
    width = max(2, len(str(clients - 1)))
    return tuple(f"client-{client:0{width}d}" for client in range(clients))


def site_graphs(
    graph: TextGraph, assignment: Sequence[Rows], overlap: float, seed: int
) -> tuple[TextGraph, ...]:
    """The graph of each client: own nodes, then copies of others' nodes.

    Only edges between nodes that the client holds are in it; those from own nodes to other clients'
    nodes are its cross edges, at both ends, or where the graph is directed at the source. A copy has no
    label and no split: it lends text, features and edges only.

    Args:
        graph: the whole graph, already split.
        assignment: own rows of each client; no row twice.
        overlap: copies as a share of a client's own nodes.
        seed: of the run.
    """
    names = site_names(len(assignment))
    owner = np.full(graph.num_nodes, -1, np.int64)
    for client, rows in enumerate(assignment):
        owner[rows] = client
    copies = overlap_rows(graph, assignment, overlap, seed)
    sources, targets = graph.edges.T
    cut_source, cut_target, cut_weight = sources, targets, graph.edge_weights
    if not graph.directed:
        cut_source, cut_target = np.r_[sources, targets], np.r_[targets, sources]
        cut_weight = np.tile(graph.edge_weights, 2)
    cut = (owner[cut_source] != owner[cut_target]) & (owner[cut_source] >= 0) & (owner[cut_target] >= 0)
    cut_source, cut_target, cut_weight = cut_source[cut], cut_target[cut], cut_weight[cut]

    sites = []
    for client, (own, copied) in enumerate(zip(assignment, copies, strict=True)):
        site = graph.subgraph(np.concatenate([own, copied]))
        position = np.full(graph.num_nodes, -1, np.int64)
        position[own] = np.arange(len(own))
        mine = owner[cut_source] == client
        foreign = cut_target[mine]
        kept = site.cross_edges.select(site.cross_edges.source < len(own))
        labels, split, extra = site.labels.copy(), site.split.copy(), dict(site.extra)
        labels[len(own) :], split[len(own) :] = -1, NONE
        if len(copied):
            owners = [None] * len(own) + [names[owner[row]] for row in copied]
            extra[COPIED_FROM] = pa.array(owners, pa.large_string())
        cross = CrossEdges(
            np.concatenate([kept.source, position[cut_source[mine]]]),
            kept.foreign + tuple(graph.node_ids[row] for row in foreign),
            kept.peer + tuple(names[owner[row]] for row in foreign),
            np.concatenate([kept.weight, cut_weight[mine]]),
        )
        sites.append(
            replace(site, name=names[client], labels=labels, split=split, cross_edges=cross, extra=extra)
        )
    return tuple(sites)


def prepare_sites(
    graph: TextGraph, assignment: Sequence[Rows], overlap: float, seed: int, destination: str | Path
) -> tuple[Path, ...]:
    """Writes `site_graphs` as folders `destination`/client-00, client-01, ...

    Returns:
        the folders, in the order of the clients.
    """
    sites = site_graphs(graph, assignment, overlap, seed)
    return tuple(write_folder(site, Path(destination) / site.name) for site in sites)


def pooled(graphs: Sequence[TextGraph]) -> TextGraph:
    """One graph of all sites, for the centralised row.

    Cross edges whose two ends are known become edges again; copies of nodes whose owner is there are
    left out, since the owner has them with their labels. Ids that clash get the site's name in front.

    Raises:
        DataError: if the sites do not agree on classes, direction, features or have the same name.
    """
    check_agreement(graphs)
    names = {graph.name for graph in graphs}
    owned = [graph.subgraph(_own_rows(graph, names)) for graph in graphs]
    plain = [node for graph in owned for node in graph.node_ids]
    clash = len({str(node) for node in plain}) < len(plain)
    same_type = len({type(node) for node in plain}) <= 1
    ids: list[NodeId] = []
    row_of: dict[tuple[str, str], int] = {}
    for graph in owned:
        for node in graph.node_ids:
            row_of[graph.name, str(node)] = len(ids)
            ids.append(f"{graph.name}/{node}" if clash else node if same_type else str(node))
    offsets = np.cumsum([0, *(graph.num_nodes for graph in owned)])
    pairs = [graph.edges + offset for graph, offset in zip(owned, offsets, strict=False)]
    weights = [graph.edge_weights for graph in owned]
    left: list[CrossEdges] = []
    for graph, offset in zip(owned, offsets, strict=False):
        cross = graph.cross_edges
        other = [
            row_of.get((peer, str(node)), -1) for peer, node in zip(cross.peer, cross.foreign, strict=True)
        ]
        target = np.array(other, np.int64)
        source = cross.source + offset
        known = target >= 0
        pairs.append(np.stack([source[known], target[known]], axis=1))
        weights.append(cross.weight[known])
        left.append(replace(cross, source=source).select(~known))
    edges, edge_weights, _, _ = canonical_edges(
        np.concatenate(pairs), np.concatenate(weights), graphs[0].directed
    )
    features = [graph.features for graph in owned if graph.features is not None]
    shared = [name for name in owned[0].extra if name != COPIED_FROM and _in_all(owned, name)]
    return TextGraph(
        name="+".join(graph.name for graph in graphs),
        node_ids=tuple(ids),
        texts=tuple(text for graph in owned for text in graph.texts),
        labels=np.concatenate([graph.labels for graph in owned]),
        split=np.concatenate([graph.split for graph in owned]),
        edges=edges,
        edge_weights=edge_weights,
        classes=graphs[0].classes,
        directed=graphs[0].directed,
        features=np.concatenate(features) if features else None,
        cross_edges=CrossEdges(
            np.concatenate([cross.source for cross in left]),
            tuple(node for cross in left for node in cross.foreign),
            tuple(peer for cross in left for peer in cross.peer),
            np.concatenate([cross.weight for cross in left]),
        ),
        extra={name: pa.concat_arrays([graph.extra[name] for graph in owned]) for name in shared},
        split_drawn=any(graph.split_drawn for graph in owned),
    )


def check_agreement(graphs: Sequence[TextGraph]) -> None:
    """Raise DataError where sites cannot be one federation: classes, direction, features, names."""
    if not graphs:
        raise DataError("There is no folder to pool; give at least one.")
    first, problems = graphs[0], []
    widths = {None if graph.features is None else graph.features.shape[1] for graph in graphs}
    if len(widths) > 1:
        problems.append(
            "Some folders have features of another width, or none; give features.npy of one width to all or none."
        )
    if len({graph.name for graph in graphs}) < len(graphs):
        names = ", ".join(graph.name for graph in graphs)
        problems.append(f"Two folders have the same name ({names}); give each its own name in its meta file.")
    for graph in graphs[1:]:
        if graph.classes != first.classes:
            problems.append(
                f"{graph.name!r} has the classes {', '.join(graph.classes)}, but {first.name!r} has "
                f"{', '.join(first.classes)}; agree on one ordered list."
            )
        if graph.directed != first.directed:
            problems.append(f"{graph.name!r} and {first.name!r} do not agree on directed; set it alike.")
    if problems:
        raise DataError(problems)


def _own_rows(graph: TextGraph, names: set[str]) -> Rows:
    """Rows that are not copies of another pooled site's nodes."""
    column = graph.extra.get(COPIED_FROM)
    owners = [None] * graph.num_nodes if column is None else column.to_pylist()
    return np.array([row for row, owner in enumerate(owners) if owner not in names], np.int64)


def _in_all(graphs: Sequence[TextGraph], name: str) -> bool:
    return all(
        name in graph.extra and graph.extra[name].type == graphs[0].extra[name].type for graph in graphs
    )
