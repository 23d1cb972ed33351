"""Predictions as a table: a row a node, its quoted evidence beside it.

The table quotes texts and stays at the institution.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from fedtag.client.data.text_graph import NONE, SPLIT_NAMES, TextGraph
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.prediction.outcome import Prediction
from fedtag.common.errors import RunError
from fedtag.common.wording.counts import plural

ROWS_PER_BATCH = 4096
CLASS_PREFIX = "p:"
METADATA_PREFIX = "fedtag."


def table_schema(data: TextGraph, facts: Mapping[str, Any]) -> pa.Schema:
    """The columns of the table.

    node_id, prediction, confidence, a column `p:CLASS` with the probability of each class, scoring (the path
    that predicted), label and split of the folder, evidence (the spans, heaviest first), neighbours,
    evidence_share, and evidence_prediction: what the path that selected the evidence predicts. The last four
    are null where there is no evidence.

    Args:
        data: the folder.
        facts: for the schema's metadata, where each key gets the prefix `fedtag.`; what is not text becomes JSON.
    """
    node = pa.int64() if isinstance(data.node_ids[0], int) else pa.large_string()
    span = {
        "node": node,
        "hop": pa.int8(),
        "start": pa.int64(),
        "end": pa.int64(),
        "weight": pa.float64(),
        "text": pa.large_string(),
        "sha256": pa.string(),
    }
    neighbour = {"node": node, "hop": pa.int8(), "weight": pa.float64()}
    columns = {
        "node_id": node,
        "prediction": pa.string(),
        "confidence": pa.float32(),
        **{f"{CLASS_PREFIX}{name}": pa.float32() for name in data.classes},
        "scoring": pa.string(),
        "label": pa.string(),
        "split": pa.string(),
        "evidence": pa.list_(pa.struct(list(span.items()))),
        "neighbours": pa.list_(pa.struct(list(neighbour.items()))),
        "evidence_share": pa.float64(),
        "evidence_prediction": pa.string(),
    }
    metadata = {
        METADATA_PREFIX + key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in facts.items()
    }
    return pa.schema(list(columns.items()), metadata=metadata)


def table_batches(
    data: TextGraph, prediction: Prediction, scoring: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows in the order of the folder, some thousands at a time, so that no more quotations are in memory.

    Args:
        data: the folder.
        prediction: of all its nodes.
        scoring: name of the path that predicted.
        schema: by `table_schema`.

    Raises:
        RunError: a probability is not a finite number.
    """
    probabilities = prediction.logits.detach().cpu().softmax(1)
    bad = (~torch.isfinite(probabilities).all(1)).nonzero().flatten()
    if bad.numel():
        raise RunError(
            f"the model gives {plural(bad.numel(), 'node')} no finite probability, first {data.node_ids[int(bad[0])]}; "
            "scale the folder's features like those of the run, or use another model"
        )
    best, shares = prediction.classes.cpu().numpy(), probabilities.numpy()
    confidence = shares[np.arange(len(best)), best]
    names = np.array([*data.classes, None], dtype=object)
    splits = np.array([None if code == NONE else name for code, name in enumerate(SPLIT_NAMES)], dtype=object)
    text_of = dict(zip(data.node_ids, data.texts, strict=True))
    for start in range(0, data.num_nodes, ROWS_PER_BATCH):
        rows = slice(start, start + ROWS_PER_BATCH)
        ids = data.node_ids[rows]
        columns: dict[str, Any] = {
            "node_id": ids,
            "prediction": names[best[rows]],
            "confidence": confidence[rows],
            **{f"{CLASS_PREFIX}{name}": shares[rows, place] for place, name in enumerate(data.classes)},
            "scoring": [scoring] * len(ids),
            "label": names[data.labels[rows]],
            "split": splits[data.split[rows]],
            **_evidence_columns(
                None if prediction.packs is None else prediction.packs[rows], len(ids), text_of
            ),
        }
        yield pa.record_batch([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _evidence_columns(
    packs: Sequence[EvidencePack] | None, count: int, text_of: Mapping[str | int, str]
) -> dict[str, list[Any]]:
    if packs is None:
        names = ("evidence", "neighbours", "evidence_share", "evidence_prediction")
        return {name: [None] * count for name in names}
    return {
        "evidence": [_spans(pack, text_of) for pack in packs],
        "neighbours": [
            [{"node": near.node, "hop": near.hop, "weight": near.weight} for near in pack.neighbours]
            for pack in packs
        ],
        "evidence_share": [pack.evidence_share for pack in packs],
        "evidence_prediction": [pack.prediction for pack in packs],
    }


def _spans(pack: EvidencePack, text_of: Mapping[str | int, str]) -> list[dict[str, Any]]:
    hop_of = {near.node: near.hop for near in pack.neighbours}
    return [
        {
            "node": chunk.node,
            "hop": hop_of[chunk.node],
            "start": chunk.start,
            "end": chunk.end,
            "weight": chunk.weight,
            "text": text_of[chunk.node][chunk.start : chunk.end],
            "sha256": chunk.sha256,
        }
        for chunk in pack.chunks
    ]
