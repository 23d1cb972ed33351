"""What several sources are as one federation; whoever validates data and whoever runs on them asks here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedtag.client.data.assembly import Reading
from fedtag.client.data.sites import check_agreement
from fedtag.client.data.sources import load_source
from fedtag.client.data.splitting import drawn_note, untrainable
from fedtag.client.data.text_graph import TEST, TRAIN, VAL, TextGraph
from fedtag.client.site.site import site_name
from fedtag.common.errors import DataError
from fedtag.common.wording.counts import plural


def read_sources(sources: Sequence[str], to_split: bool = False) -> tuple[Reading, ...]:
    """Each source as the graph of an institution; several must agree, and nodes of some must be able to train.

    Args:
        sources: as of `load_source`.
        to_split: whether another split will be drawn, so that theirs need not let a node train.

    Raises:
        DataError: with all that is wrong with any of them, or else between them.
    """
    short = [Path(source).name for source in sources]
    names = dict(zip(sources, short if len(set(short)) == len(short) else sources, strict=True))
    readings: list[Reading] = []
    problems: list[str] = []
    for source in sources:
        try:
            readings.append(load_source(source, require_training=len(sources) == 1 and not to_split))
        except DataError as error:
            called = f"{names[source]}: " if len(sources) > 1 else ""
            problems += [f"{called}{one}" for one in error.problems]
    if problems:
        raise DataError(problems)
    graphs = [one.graph for one in readings]
    if len(graphs) > 1:
        check_agreement([named_site(graph) for graph in graphs])
    if not to_split:
        check_training(sources, graphs)
    return tuple(readings)


def named_site(graph: TextGraph) -> TextGraph:
    """The same with names that sites, and their folders, may have."""
    peers = tuple(map(site_name, graph.cross_edges.peer))
    return replace(graph, name=site_name(graph.name), cross_edges=replace(graph.cross_edges, peer=peers))


def check_training(sources: Sequence[str], graphs: Sequence[TextGraph]) -> None:
    """Raise DataError where no node may train, so that nothing would be learned."""
    labels = np.concatenate([graph.labels for graph in graphs])
    if fault := untrainable(labels, np.concatenate([graph.split for graph in graphs])):
        names = ", ".join(Path(source).name for source in sources)
        raise DataError(f"{names}: {'; '.join(fault)}.")


def scored_only(graphs: Sequence[TextGraph]) -> list[str]:
    """A sentence for each institution that brings nothing to learn from; where there is one alone it is refused."""
    faults = [(graph.name, untrainable(graph.labels, graph.split)) for graph in graphs]
    return [
        f"{name}: {fault[0]}, so that it is scored and does not train; {fault[1]}"
        for name, fault in faults
        if fault
    ]


def whole_words(graphs: Sequence[TextGraph]) -> str:
    """How large all of them are together, and whether their splits were drawn."""
    nodes, edges = sum(graph.num_nodes for graph in graphs), sum(len(graph.edges) for graph in graphs)
    counts = [
        sum(int(np.sum((graph.split == code) & (graph.labels >= 0))) for graph in graphs)
        for code in (TRAIN, VAL, TEST)
    ]
    train, val, test = f"{counts[0]:,}", f"{counts[1]:,}", plural(counts[2], "test node")
    said = f"{plural(nodes, 'node')}, {plural(edges, 'edge')}; {train} training, {val} validation and {test}"
    return f"{said}; {drawn_note()}" if any(graph.split_drawn for graph in graphs) else said
