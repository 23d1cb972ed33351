"""Evidence packs from the arrays that a round's selection leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from jaxtyping import Float, Int

from fedtag.client.evidence.packs import (
    EvidencePack,
    Kind,
    NodeId,
    SelectedChunk,
    SelectedNeighbour,
    text_digest,
)
from fedtag.common.errors import DataError

_DECIMALS = 7  # a single-precision weight in [0, 1] holds no more


@dataclass(frozen=True)
class NeighbourColumns:
    """Selected neighbours of all packs: entry j belongs to pack `row[j]`; in any order.

    Args:
        row: index of the pack, in [0, packs).
        node: position of the neighbour, in [0, nodes).
        hop: its distance, >= 0.
        weight: its share within the hop, in [0, 1].
    """

    row: Int[np.ndarray, " entries"]
    node: Int[np.ndarray, " entries"]
    hop: Int[np.ndarray, " entries"]
    weight: Float[np.ndarray, " entries"]


@dataclass(frozen=True)
class ChunkColumns:
    """Selected chunks of all packs: entry j belongs to pack `row[j]`; in any order.

    Args:
        row: index of the pack, in [0, packs).
        node: position of the source node, in [0, nodes).
        start, end: character offsets into its text.
        weight: its share among the pack's chunks, in [0, 1].
    """

    row: Int[np.ndarray, " entries"]
    node: Int[np.ndarray, " entries"]
    start: Int[np.ndarray, " entries"]
    end: Int[np.ndarray, " entries"]
    weight: Float[np.ndarray, " entries"]


def packs_from_arrays(
    nodes: Int[np.ndarray, " packs"],
    prediction: Int[np.ndarray, " packs"],
    confidence: Float[np.ndarray, " packs"],
    neighbours: NeighbourColumns,
    chunks: ChunkColumns,
    *,
    node_ids: Sequence[NodeId],
    texts: Sequence[str],
    classes: Sequence[str],
    kind: Kind,
    round_number: int,
    model: str,
    label: Int[np.ndarray, " packs"] | None = None,
    evidence_share: Float[np.ndarray, " packs"] | None = None,
) -> tuple[EvidencePack, ...]:
    """One pack for each entry of `nodes`, in that order.

    Within a pack, neighbours stand by hop, then by falling weight; chunks by falling weight; ties by
    position. Numbers are rounded to seven decimals.

    Args:
        nodes: positions into `node_ids`.
        prediction: positions into `classes`.
        confidence: probability of the prediction, in [0, 1].
        neighbours, chunks: the selection.
        node_ids, texts: the institution's nodes.
        classes: names of the classes.
        kind, round_number, model: as `kind`, `round` and `model` of `EvidencePack`.
        label: positions into `classes`, -1 where unknown.
        evidence_share: in [0, 1]; NaN where unknown.

    Raises:
        DataError: columns differ in length, or an index lies outside its range.
    """
    count = len(nodes)
    _check_lengths("packs", count, prediction, confidence, label, evidence_share)
    _check_lengths("neighbours", len(neighbours.row), neighbours.node, neighbours.hop, neighbours.weight)
    _check_lengths("chunks", len(chunks.row), chunks.node, chunks.start, chunks.end, chunks.weight)
    _check_range("row of a neighbour", neighbours.row, 0, count)
    _check_range("row of a chunk", chunks.row, 0, count)
    _check_range("node of a pack", nodes, 0, len(node_ids))
    _check_range("node of a neighbour", neighbours.node, 0, len(node_ids))
    _check_range("node of a chunk", chunks.node, 0, len(node_ids))
    _check_range("prediction", prediction, 0, len(classes))
    if label is not None:
        _check_range("label", label, -1, len(classes))

    mentioned = np.unique(np.concatenate([nodes, neighbours.node, chunks.node])).tolist()
    ids = {position: _plain(node_ids[position]) for position in mentioned}
    digests = {position: text_digest(texts[position]) for position in np.unique(chunks.node).tolist()}

    order = np.lexsort((neighbours.node, -neighbours.weight, neighbours.hop, neighbours.row))
    neighbour_bounds = _bounds(neighbours.row[order], count)
    all_neighbours = [
        SelectedNeighbour(ids[node], hop, weight)
        for node, hop, weight in zip(
            neighbours.node[order].tolist(),
            neighbours.hop[order].tolist(),
            _rounded(neighbours.weight[order]),
            strict=True,
        )
    ]
    order = np.lexsort((chunks.start, chunks.node, -chunks.weight, chunks.row))
    chunk_bounds = _bounds(chunks.row[order], count)
    all_chunks = [
        SelectedChunk(ids[node], start, end, weight, digests[node])
        for node, start, end, weight in zip(
            chunks.node[order].tolist(),
            chunks.start[order].tolist(),
            chunks.end[order].tolist(),
            _rounded(chunks.weight[order]),
            strict=True,
        )
    ]
    labels = [None] * count if label is None else [classes[y] if y >= 0 else None for y in label.tolist()]
    shares: list[float | None] = [None] * count
    if evidence_share is not None:
        shares = [None if np.isnan(share) else share for share in _rounded(evidence_share)]
    predictions, confidences = prediction.tolist(), _rounded(confidence)
    return tuple(
        EvidencePack(
            node=ids[node],
            kind=kind,
            round=round_number,
            model=model,
            prediction=classes[predictions[row]],
            confidence=confidences[row],
            neighbours=tuple(all_neighbours[neighbour_bounds[row] : neighbour_bounds[row + 1]]),
            chunks=tuple(all_chunks[chunk_bounds[row] : chunk_bounds[row + 1]]),
            evidence_share=shares[row],
            label=labels[row],
        )
        for row, node in enumerate(nodes.tolist())
    )


def _plain(node: NodeId | np.generic) -> NodeId:
    return cast(NodeId, node.item()) if isinstance(node, np.generic) else node


def _bounds(sorted_rows: Int[np.ndarray, " entries"], count: int) -> list[int]:
    return np.searchsorted(sorted_rows, np.arange(count + 1)).tolist()


def _rounded(values: Float[np.ndarray, " entries"]) -> list[float]:
    return np.round(np.asarray(values, dtype=np.float64), _DECIMALS).tolist()


def _check_lengths(what: str, count: int, *columns: np.ndarray | None) -> None:
    lengths = {len(column) for column in columns if column is not None} | {count}
    if len(lengths) > 1:
        raise DataError(f"the columns of the {what} have {sorted(lengths)} entries: give one length")


def _check_range(what: str, values: np.ndarray, low: int, high: int) -> None:
    outside = values[(values < low) | (values >= high)]
    if outside.size:
        raise DataError(f"{what} is {outside[0]}, outside [{low}, {high}): give positions, not identifiers")
