from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.columns import ChunkColumns, NeighbourColumns, packs_from_arrays
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour
from fedtag.common.errors import DataError

IDS = ("p", "q", "r", "s")
TEXTS = ("text of p", "text of q", "", "text of s")
CLASSES = ("red", "blue")


def build(rng: np.random.Generator, rows: int, entries: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    nodes = rng.integers(0, 4, rows)
    arrays = {
        "row": rng.integers(0, rows, entries),
        "node": rng.integers(0, 4, entries),
        "hop": rng.integers(0, 3, entries),
        "weight": rng.integers(0, 4, entries) / 4,
        "start": rng.integers(0, 5, entries),
    }
    return nodes, arrays


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(0, 12))
def test_equals_a_plain_loop(seed: int, rows: int, entries: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, c = build(rng, rows, entries)
    prediction, label = rng.integers(0, 2, rows), rng.integers(-1, 2, rows)
    confidence = rng.random(rows)
    share = np.where(rng.random(rows) < 0.5, np.nan, 0.25)
    found = packs_from_arrays(
        nodes,
        prediction,
        confidence,
        NeighbourColumns(c["row"], c["node"], c["hop"], c["weight"]),
        ChunkColumns(c["row"], c["node"], c["start"], c["start"] + 2, c["weight"]),
        node_ids=IDS,
        texts=TEXTS,
        classes=CLASSES,
        kind="scored",
        round_number=4,
        model="m",
        label=label,
        evidence_share=share,
    )
    expected = []
    for row in range(rows):
        mine = [j for j in range(entries) if c["row"][j] == row]
        by_hop = sorted(mine, key=lambda j: (c["hop"][j], -c["weight"][j], c["node"][j], j))
        by_weight = sorted(mine, key=lambda j: (-c["weight"][j], c["node"][j], c["start"][j], j))
        expected.append(
            EvidencePack(
                node=IDS[nodes[row]],
                kind="scored",
                round=4,
                model="m",
                prediction=CLASSES[prediction[row]],
                confidence=round(float(confidence[row]), 7),
                neighbours=tuple(
                    SelectedNeighbour(IDS[c["node"][j]], int(c["hop"][j]), float(c["weight"][j]))
                    for j in by_hop
                ),
                chunks=tuple(
                    SelectedChunk(
                        IDS[c["node"][j]],
                        int(c["start"][j]),
                        int(c["start"][j]) + 2,
                        float(c["weight"][j]),
                        hashlib.sha256(TEXTS[c["node"][j]].encode()).hexdigest(),
                    )
                    for j in by_weight
                ),
                evidence_share=None if np.isnan(share[row]) else 0.25,
                label=None if label[row] < 0 else CLASSES[label[row]],
            )
        )
    assert list(found) == expected


EMPTY = np.zeros(0, dtype=np.int64)
NO_NEIGHBOURS = NeighbourColumns(EMPTY, EMPTY, EMPTY, np.zeros(0))
NO_CHUNKS = ChunkColumns(EMPTY, EMPTY, EMPTY, EMPTY, np.zeros(0))
ONE = np.array([0])


def plain(neighbours: NeighbourColumns, chunks: ChunkColumns, **changes: object) -> tuple[EvidencePack, ...]:
    arguments: dict[str, object] = {
        "nodes": ONE,
        "prediction": ONE,
        "confidence": np.array([0.1], dtype=np.float32),
        "node_ids": np.array([11, 12]),
        "texts": ("a", "b"),
        "classes": CLASSES,
        "kind": "core",
        "round_number": 1,
        "model": "m",
    }
    return packs_from_arrays(neighbours=neighbours, chunks=chunks, **(arguments | changes))


def test_a_pack_may_be_empty_and_holds_plain_python_values() -> None:
    (pack,) = plain(NO_NEIGHBOURS, NO_CHUNKS)
    assert pack.neighbours == pack.chunks == ()
    assert (pack.summary, pack.evidence_share, pack.label) == (None, None, None)
    assert type(pack.node) is int
    assert pack.confidence == 0.1  # not the 0.10000000149 that single precision widens to
    assert type(pack.confidence) is float


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": np.array([2])}, r"node of a pack is 2, outside \[0, 2\)"),
        ({"prediction": np.array([-1])}, r"prediction is -1, outside \[0, 2\)"),
        ({"label": np.array([2])}, r"label is 2, outside \[-1, 2\)"),
        ({"label": np.array([1, 1])}, r"columns of the packs have \[1, 2\] entries"),
    ],
)
def test_unusable_columns_of_packs_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        plain(NO_NEIGHBOURS, NO_CHUNKS, **changes)


def test_unusable_selections_are_refused() -> None:
    neighbours = NeighbourColumns(ONE, ONE, ONE, np.array([1.0]))
    chunks = ChunkColumns(ONE, ONE, ONE, ONE, np.array([1.0]))
    bad = np.array([5])
    for field, message in (("row", "row of a neighbour is 5"), ("node", "node of a neighbour is 5")):
        with pytest.raises(DataError, match=message):
            plain(dataclasses.replace(neighbours, **{field: bad}), chunks)
        with pytest.raises(DataError, match=message.replace("neighbour", "chunk")):
            plain(neighbours, dataclasses.replace(chunks, **{field: bad}))
    with pytest.raises(DataError, match=r"columns of the chunks have \[0, 1\] entries"):
        plain(neighbours, dataclasses.replace(chunks, end=EMPTY))
