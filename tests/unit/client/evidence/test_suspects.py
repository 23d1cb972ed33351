"""What is looked for column by column finds what reading every pack finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.completeness import completeness_violations
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.source_texts import KnownLabels
from fedtag.client.evidence.verification import verify

TEXTS = ["The node itself.", "", "A neighbour speaks.", "Ünïcödé \U0001f600", "one", "\ud800"]
IDS = [f"n{place}" for place in range(len(TEXTS))]
NODES = st.sampled_from([*IDS, "gone"])
WEIGHTS = st.sampled_from(
    [0.0, 0.2, 0.5, 0.5 + 2e-4, 0.99990, 0.999901, 1.0, 1.00009, 1.0002, -0.1, float("nan")]
)
NEIGHBOURS = st.builds(SelectedNeighbour, NODES, st.integers(-1, 4), WEIGHTS)
DIGESTS = {node: text_digest(text) for node, text in zip(IDS, TEXTS, strict=True)}
CHUNKS = st.builds(
    lambda node, start, end, weight, sound: SelectedChunk(
        node, start, end, weight, DIGESTS.get(node, "00" * 32) if sound else text_digest("other")
    ),
    NODES,
    st.integers(-1, 17),
    st.integers(-1, 20),
    WEIGHTS,
    st.booleans(),
)


KNOWN = KnownLabels(("c", "d"), np.array([0, 1, -1, 0, 1, -1]))


def pack(
    node: str,
    neighbours: Sequence[SelectedNeighbour],
    chunks: Sequence[SelectedChunk],
    prediction: str = "c",
    share: float | None = None,
    label: str | None = None,
) -> EvidencePack:
    near, spans = tuple(neighbours), tuple(chunks)
    return EvidencePack(node, "scored", 1, "m", prediction, 0.5, near, spans, None, share, label)


def sound(node: str) -> EvidencePack:
    near = SelectedNeighbour(node, 0, 1.0)
    label = {"n0": "c", "n1": "d"}.get(node)
    return pack(node, [near], [SelectedChunk(node, 0, 3, 1.0, DIGESTS[node])], label=label)


DRAWN = st.builds(
    pack,
    NODES,
    st.lists(NEIGHBOURS, max_size=4),
    st.lists(CHUNKS, max_size=3),
    st.sampled_from(["c", "d", "e"]),
    st.sampled_from([None, 0.0, 0.5, 1.0, 1.001, -3.0, float("nan")]),
    st.sampled_from([None, "c", "d", "e"]),
)


@st.composite
def edited(draw: st.DrawFn) -> EvidencePack:
    """A sound pack with one thing done to it by hand."""
    node = draw(st.sampled_from(["n0", "n2"]))
    one = sound(node)
    near, span = one.neighbours[0], one.chunks[0]
    changes: list[dict[str, Any]] = [
        {},
        {"neighbours": ()},
        {"chunks": ()},
        {"neighbours": (near, dataclasses.replace(near, hop=2))},
        {"neighbours": (near, *[SelectedNeighbour("n3", 1, 0.5)] * 2)},
        {"neighbours": (near, SelectedNeighbour("n3", 1, 1.0), SelectedNeighbour("n3", 2, 1.0))},
        {"chunks": (dataclasses.replace(span, weight=0.5),) * 2},
        {
            "neighbours": (near, SelectedNeighbour("n1", 1, 1.0)),
            "chunks": (SelectedChunk("n1", 0, 0, 1.0, DIGESTS["n1"]),),
        },
        {"evidence_share": 7.0},
        {"prediction": "e"},
        {"label": "d"},
    ]
    return dataclasses.replace(one, **draw(st.sampled_from(changes)))


@settings(deadline=None, max_examples=200)
@given(st.lists(DRAWN | edited(), max_size=6), st.sampled_from([None, KNOWN]))
def test_columns_miss_nothing_that_reading_finds(
    packs: list[EvidencePack], known: KnownLabels | None
) -> None:
    expected = verify(list(PackTable.of(packs)), IDS, TEXTS, known=known)
    assert verify(PackTable.of(packs), IDS, TEXTS, known=known) == expected


def test_sound_packs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"n{place}": f"text {place}" for place in range(150)}
    packs = [
        pack(node, [SelectedNeighbour(node, 0, 1.0)], [SelectedChunk(node, 0, 4, 1.0, text_digest(text))])
        for node, text in texts.items()
    ]
    read: list[int] = []
    made = PackTable.__getitem__
    monkeypatch.setattr(PackTable, "__getitem__", lambda table, row: read.append(row) or made(table, row))
    assert verify(PackTable.of(packs), list(texts), list(texts.values())).holds
    assert not read
    packs[70] = dataclasses.replace(packs[70], neighbours=())
    assert not verify(PackTable.of(packs), list(texts), list(texts.values())).holds
    assert read == [70]


@settings(deadline=None, max_examples=100)
@given(
    st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda edge: edge[0] < edge[1])),
    st.lists(st.tuples(NODES, st.lists(st.tuples(NODES, st.integers(0, 3)), max_size=5)), max_size=6),
)
def test_neighbours_are_as_far_away_as_they_say(
    edges: set[tuple[int, int]], drawn: list[tuple[str, list[tuple[str, int]]]]
) -> None:
    graph = nx.Graph([(IDS[one], IDS[other]) for one, other in edges])
    graph.add_nodes_from([*IDS, "gone"])
    packs = [
        pack(node, [SelectedNeighbour(other, hop, 1.0) for other, hop in near], []) for node, near in drawn
    ]
    ends = np.array(sorted(edges), np.int64).reshape(-1, 2)
    found = completeness_violations(PackTable.of(packs), 1, IDS, ends)
    said = {1: "adjacent", 2: "at distance two"}
    expected = [
        f"node {node!r}, round 1: {other!r} is not {said[hop]}, but stands at hop {hop}"
        for node, near in drawn
        for other, hop in near
        if hop in said and not away(graph, node, other, hop)
    ]
    assert [sentence for sentence in found if "stands at hop" in sentence] == expected


def away(graph: nx.Graph, node: str, other: str, hop: int) -> bool:
    """Whether a neighbour is adjacent, or shares one and is not; a node is two steps from itself where it has any."""
    near = set(graph[node])
    return other in near if hop == 1 else other not in near and bool(near & set(graph[other]))


COMPLETE: list[tuple[Callable[[EvidencePack], EvidencePack], str]] = [
    (lambda one: dataclasses.replace(one, round=2), "the pack lies in the file of round 1"),
    (lambda one: dataclasses.replace(one, confidence=1.5), "a confidence of 1.5 is no probability"),
    (lambda one: dataclasses.replace(one, confidence=float("nan")), "a confidence of nan is no probability"),
    (lambda one: dataclasses.replace(one, node="n0"), "node 'n0' has 2 packs"),
    (lambda one: dataclasses.replace(one, model="o"), "name 2 different models"),
    (
        lambda one: dataclasses.replace(one, kind="core"),
        "is of kind 'core' among those of predictions, 'scored'",
    ),
]


@pytest.mark.parametrize(("change", "said"), COMPLETE)
def test_each_pack_is_of_the_round_and_of_one_model(
    change: Callable[[EvidencePack], EvidencePack], said: str
) -> None:
    packs = [sound(node) for node in IDS]
    none = np.zeros((0, 2), np.int64)
    assert completeness_violations(PackTable.of(packs), 1, IDS, none, "m") == []
    packs[3] = change(packs[3])
    assert said in "\n".join(completeness_violations(PackTable.of(packs), 1, IDS, none, "m"))
