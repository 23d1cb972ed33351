"""The table of predictions against what it was made from, read back by pyarrow alone."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.data.text_graph import NONE, TEST, TRAIN, NodeId, TextGraph
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.prediction import table as module
from fedtag.client.prediction.outcome import Prediction
from fedtag.client.prediction.table import table_batches, table_schema
from fedtag.common.errors import RunError

TEXTS = ("naïve 图 one. Two.", "", "three")


def graph(ids: tuple[NodeId, ...] = (7, 3, 5)) -> TextGraph:
    return TextGraph(
        name="site",
        node_ids=ids,
        texts=TEXTS,
        labels=np.array([1, -1, 0]),
        split=np.array([TEST, NONE, TRAIN], np.int8),
        edges=np.array([[0, 2]]),
        edge_weights=np.ones(1, np.float32),
        classes=("a.b", "ß"),
    )


def pack(node: NodeId, near: NodeId, share: float | None = None) -> EvidencePack:
    chunks = (
        SelectedChunk(near, 0, 5, 0.75, text_digest(TEXTS[2])),
        SelectedChunk(node, 8, 12, 0.25, text_digest(TEXTS[0])),
    )
    neighbours = (SelectedNeighbour(node, 0, 1.0), SelectedNeighbour(near, 2, 0.5))
    return EvidencePack(node, "scored", 4, "f" * 64, "ß", 0.5, neighbours, chunks, evidence_share=share)


def empty_pack(node: NodeId) -> EvidencePack:
    return EvidencePack(node, "scored", 4, "f" * 64, "a.b", 0.5, (), ())


def written(data: TextGraph, prediction: Prediction, **facts: object) -> pa.Table:
    schema = table_schema(data, facts)
    return pa.Table.from_batches(list(table_batches(data, prediction, "graph", schema)), schema)


LOGITS = torch.tensor([[0.0, math.log(3.0)], [0.0, 0.0], [math.log(4.0), 0.0]])


@pytest.mark.parametrize("ids", [(7, 3, 5), ("x", "y", "z")])
def test_every_column(ids: tuple[NodeId, ...]) -> None:
    packs = (pack(ids[0], ids[2], share=0.125), empty_pack(ids[1]), pack(ids[0], ids[2]))
    table = written(graph(ids), Prediction(LOGITS, packs), model="ab", round=4, classes=["a.b", "ß"])
    first, second, third = table.to_pylist()
    assert [row["node_id"] for row in (first, second, third)] == list(ids)
    assert pa.types.is_int64(table.schema.field("node_id").type) == isinstance(ids[0], int)
    assert [row["prediction"] for row in (first, second, third)] == ["ß", "a.b", "a.b"]
    assert [row["confidence"] for row in (first, second, third)] == pytest.approx([0.75, 0.5, 0.8])
    assert [row["p:a.b"] for row in (first, second, third)] == pytest.approx([0.25, 0.5, 0.8])
    assert [row["p:ß"] for row in (first, second, third)] == pytest.approx([0.75, 0.5, 0.2])
    assert [row["label"] for row in (first, second, third)] == ["ß", None, "a.b"]
    assert [row["split"] for row in (first, second, third)] == ["test", None, "train"]
    assert [row["evidence_share"] for row in (first, second, third)] == [0.125, None, None]
    assert [row["evidence_prediction"] for row in (first, second, third)] == ["ß", "a.b", "ß"]
    assert {row["scoring"] for row in (first, second, third)} == {"graph"}
    assert first["evidence"] == [
        {
            "node": ids[2],
            "hop": 2,
            "start": 0,
            "end": 5,
            "weight": 0.75,
            "text": "three",
            "sha256": text_digest("three"),
        },
        {
            "node": ids[0],
            "hop": 0,
            "start": 8,
            "end": 12,
            "weight": 0.25,
            "text": "one.",
            "sha256": text_digest(TEXTS[0]),
        },
    ]
    assert first["neighbours"] == [
        {"node": ids[0], "hop": 0, "weight": 1.0},
        {"node": ids[2], "hop": 2, "weight": 0.5},
    ]
    assert second["evidence"] == second["neighbours"] == []
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert (metadata["fedtag.model"], metadata["fedtag.round"]) == ("ab", "4")
    assert json.loads(metadata["fedtag.classes"]) == ["a.b", "ß"]


def test_without_evidence_its_columns_are_null() -> None:
    table = written(graph(), Prediction(LOGITS))
    assert table.schema.equals(written(graph(), Prediction(LOGITS, (empty_pack(7),) * 3)).schema)
    for name in ("evidence", "neighbours", "evidence_share", "evidence_prediction"):
        assert table[name].null_count == 3


@given(
    st.lists(st.tuples(st.floats(-30, 30), st.floats(-30, 30)), min_size=1, max_size=12), st.integers(1, 5)
)
def test_the_size_of_batches_changes_nothing(logits: list[tuple[float, float]], size: int) -> None:
    count = len(logits)
    data = replace(
        graph(),
        node_ids=tuple(range(count)),
        texts=("three",) * count,
        labels=np.arange(count) % 3 - 1,
        split=(np.arange(count) % 4).astype(np.int8),
        edges=np.zeros((0, 2), np.int64),
        edge_weights=np.zeros(0, np.float32),
    )
    prediction = Prediction(torch.tensor(logits), tuple(empty_pack(node) for node in range(count)))
    whole = written(data, prediction)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_PER_BATCH", size)
        assert written(data, prediction).equals(whole)
    expected = np.exp(np.asarray(logits) - np.max(logits, axis=1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    found = np.stack([whole["p:a.b"].to_numpy(), whole["p:ß"].to_numpy()], axis=1)
    assert np.allclose(found, expected, atol=1e-6)
    assert np.array_equal(whole["confidence"].to_numpy(), found.max(1))


def test_probabilities_that_are_not_finite_are_refused() -> None:
    logits = LOGITS.clone()
    logits[1, 0] = math.nan
    with pytest.raises(RunError, match="gives 1 node no finite probability, first 3; scale"):
        written(graph(), Prediction(logits))
