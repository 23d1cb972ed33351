"""A site's condensed graph: the core of a round with its links, as a data folder would hold it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from fedtag.client.data.text_graph import NONE, TRAIN, CrossEdges, TextGraph, canonical_edges
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.source_texts import SourceTexts
from fedtag.client.evidence.verification import chunk_violation
from fedtag.client.site.whole_file import write_whole
from fedtag.common.errors import RunError
from fedtag.common.graph import Adjacency
from fedtag.common.tensors import tensor_bytes, tensors_of

CORE_FOLDER = "core"
"""In the folder of evidence, that of the condensed nodes of the last rounds."""

SEPARATOR = "\n\n"


def links_file(folder: Path, round_number: int) -> Path:
    """Where the links of a round's core lie, beside its packs."""
    return folder / f"round-{round_number:04d}.links.safetensors"


def write_links(folder: Path, round_number: int, adjacency: Adjacency) -> None:
    """Keep the propagation matrix of a round's core; rows are the packs of that round, in their order.

    It does not wait for the disk: the next rounds replace it.
    """
    content = tensor_bytes({"edge_index": adjacency.edge_index, "weight": adjacency.weight})
    write_whole(links_file(folder, round_number), content, durable=False)


def read_links(folder: Path, round_number: int, num_nodes: int) -> Adjacency:
    """The propagation matrix that `write_links` kept, of a core with so many nodes.

    Raises:
        RunError: it is missing, damaged, or of another core.
    """
    path = links_file(folder, round_number)
    try:
        tensors = tensors_of(path.read_bytes())
        edges, weight = tensors["edge_index"], tensors["weight"]
    except (OSError, ValueError, KeyError) as error:
        raise RunError(
            f"{path} cannot be read ({error}): export a round whose core was kept whole"
        ) from error
    if edges.numel() and int(edges.max()) >= num_nodes:
        raise RunError(
            f"{path} links more than the {num_nodes} nodes of its round: it belongs to another core"
        )
    return Adjacency(edges, weight, num_nodes)


def condensed_graph(
    site: TextGraph, packs: Sequence[EvidencePack], adjacency: Adjacency, texts: Sequence[str]
) -> TextGraph:
    """The core as a graph of its own, with the labels of training nodes and no other.

    The edges carry the weights W of which the matrix is the normalisation D^-1/2 (W + I) D^-1/2, so that
    whoever normalises the graph anew has the very matrix on which the round trained.

    Args:
        site: the graph that was condensed.
        packs: of the core, in the order of the matrix.
        adjacency: the core's propagation matrix.
        texts: what each node's condensed text is.

    Raises:
        RunError: a node of the core is not in the site's folder.
    """
    position = {node: row for row, node in enumerate(site.node_ids)}
    unknown = [pack.node for pack in packs if pack.node not in position]
    if unknown:
        raise RunError(
            f"node {unknown[0]!r} of the core is not among the nodes of {site.name!r}: "
            f"name the folder on which the run was made"
        )
    rows = np.array([position[pack.node] for pack in packs], np.int64)
    labelled = (site.split[rows] == TRAIN) & (site.labels[rows] >= 0)
    source, target = adjacency.edge_index
    loops = torch.ones(adjacency.num_nodes, dtype=torch.float64)
    own = source == target
    loops[source[own]] = adjacency.weight[own].double()
    weight = adjacency.weight.double() / (loops[source] * loops[target]).sqrt()
    one_way = source < target
    edges, weights, _, _ = canonical_edges(
        torch.stack([source, target], 1)[one_way].numpy(), weight[one_way].float().numpy(), directed=False
    )
    return replace(
        site.subgraph(rows),
        name=f"{site.name}-core-{packs[0].round}" if packs else f"{site.name}-core",
        texts=tuple(texts),
        labels=np.where(labelled, site.labels[rows], -1),
        split=np.where(labelled, TRAIN, NONE).astype(np.int8),
        edges=edges,
        edge_weights=weights,
        directed=False,
        cross_edges=CrossEdges.empty(),
        extra={"prediction": pa.array([pack.prediction for pack in packs], pa.large_string())},
    )


def chunk_texts(packs: Sequence[EvidencePack], site: TextGraph) -> tuple[str, ...]:
    """The selected chunks of each pack, the strongest first, as paragraphs.

    Raises:
        RunError: a chunk is not, word for word, from the site's present texts.
    """
    sources = SourceTexts(site.node_ids, site.texts)
    for pack in packs:
        for chunk in pack.chunks:
            fault = chunk_violation(pack, chunk, sources)
            if fault is not None:
                raise RunError(
                    f"node {pack.node!r}, round {pack.round}: the chunk [{chunk.start}:{chunk.end}] {fault}: "
                    f"name the folder with the texts on which the run was made"
                )
    texts = dict(zip(site.node_ids, site.texts, strict=True))
    return tuple(
        SEPARATOR.join(texts[chunk.node][chunk.start : chunk.end] for chunk in pack.chunks) for pack in packs
    )
