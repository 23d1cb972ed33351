"""Evidence packs from the arrays that a round's selection leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from numpy.typing import NDArray

from fedtag.client.evidence.pack_table import CHUNK, NEIGHBOUR, PackTable, columns, single
from fedtag.client.evidence.packs import Kind, NodeId, text_digest
from fedtag.common.errors import DataError


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
) -> PackTable:
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

    mentioned = np.setdiff1d(np.concatenate([neighbours.node, chunks.node]), nodes)
    rows = np.concatenate([nodes, mentioned])
    row_of = np.zeros(len(node_ids), np.int64)
    # Of a node that has several packs, the first one's row stands for it.
    row_of[rows[::-1]] = np.arange(len(rows))[::-1]
    quoted = np.zeros(len(node_ids), bool)
    quoted[chunks.node] = True
    digests = [
        bytes.fromhex(text_digest(texts[node])) if told else None
        for node, told in zip(rows.tolist(), quoted[rows].tolist(), strict=True)
    ]
    gaps = len(mentioned)
    near = np.lexsort((neighbours.node, -neighbours.weight, neighbours.hop, neighbours.row))
    spans = np.lexsort((chunks.start, chunks.node, -chunks.weight, chunks.row))
    ids = [node_ids[node] for node in rows.tolist()]
    schema = columns(pa.string() if isinstance(ids[0] if ids else "", str) else pa.int64())
    values = {
        "node": pa.array(ids, schema.field("node").type),
        "sha256": pa.array(digests, schema.field("sha256").type),
        "kind": _named(np.zeros(count, np.int64), (kind,), gaps),
        "round": _padded(np.full(count, round_number, np.int32), gaps),
        "model": _named(np.zeros(count, np.int64), (model,), gaps),
        "prediction": _named(prediction, classes, gaps),
        "confidence": _padded(single(confidence), gaps),
        "label": _named(np.full(count, -1) if label is None else label, classes, gaps),
        "evidence_share": _padded(
            np.full(count, np.nan, np.float32) if evidence_share is None else single(evidence_share), gaps
        ),
        "neighbours": _lists(
            neighbours.row[near],
            {
                "row": row_of[neighbours.node[near]],
                "hop": neighbours.hop[near],
                "weight": single(neighbours.weight[near]),
            },
            NEIGHBOUR,
            count,
            gaps,
        ),
        "chunks": _lists(
            chunks.row[spans],
            {
                "row": row_of[chunks.node[spans]],
                "start": chunks.start[spans],
                "end": chunks.end[spans],
                "weight": single(chunks.weight[spans]),
            },
            CHUNK,
            count,
            gaps,
        ),
        "account": pa.nulls(count + gaps, schema.field("account").type),
    }
    return PackTable(pa.table(values, schema))


def _named(codes: Int[np.ndarray, " packs"], names: Sequence[str], gaps: int) -> pa.Array:
    """Positions in `names` as names, none where they are negative, and none in the rows below."""
    padded = np.concatenate([codes, np.full(gaps, -1)]).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(padded, mask=padded < 0), pa.array(names, pa.string()))


def _padded(values: NDArray[Any], gaps: int) -> pa.Array:
    """Numbers, none where they are none, and none in the rows below."""
    padded = np.concatenate([values, np.zeros(gaps, values.dtype)])
    absent = np.concatenate([np.isnan(values), np.ones(gaps, bool)])
    return pa.array(padded, mask=absent)


def _lists(
    owner: Int[np.ndarray, " entries"],
    entries: dict[str, NDArray[Any]],
    kind: pa.StructType,
    count: int,
    gaps: int,
) -> pa.Array:
    """Entries, which stand by rising `owner`, as a list a row, and none in the rows below."""
    bounds = np.searchsorted(owner, np.arange(count + 1)).astype(np.int32)
    offsets = np.concatenate([bounds, np.full(gaps, bounds[-1], np.int32)])
    absent = np.arange(count + gaps) >= count
    flat = pa.StructArray.from_arrays(
        [pa.array(entries[field.name].astype(field.type.to_pandas_dtype())) for field in kind],
        fields=list(kind),
    )
    return pa.ListArray.from_arrays(pa.array(offsets), flat, pa.list_(kind), mask=pa.array(absent))


def _check_lengths(what: str, count: int, *columns: np.ndarray | None) -> None:
    lengths = {len(column) for column in columns if column is not None} | {count}
    if len(lengths) > 1:
        raise DataError(f"the columns of the {what} have {sorted(lengths)} entries: give one length")


def _check_range(what: str, values: np.ndarray, low: int, high: int) -> None:
    outside = values[(values < low) | (values >= high)]
    if outside.size:
        raise DataError(f"{what} is {outside[0]}, outside [{low}, {high}): give positions, not identifiers")
