from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.source_texts import KnownLabels
from fedtag.client.evidence.verification import verify

IDS = ("a", "b", "c", "d", 1, "1")
TEXTS = ("The node itself.", "A neighbour speaks.", "Far away.", "Farther.", "one", "the string one")
TEXT = dict(zip(IDS, TEXTS, strict=True))


def chunk(node: str | int, start: int, end: int, weight: float) -> SelectedChunk:
    return SelectedChunk(node, start, end, weight, text_digest(TEXT[node]))


SOUND = EvidencePack(
    node="a",
    kind="scored",
    round=5,
    model="m",
    prediction="x",
    confidence=0.7,
    neighbours=(
        SelectedNeighbour("a", 0, 1.0),
        SelectedNeighbour("b", 1, 0.75),
        SelectedNeighbour(1, 1, 0.25),
        SelectedNeighbour("c", 2, 1.00005),
    ),
    chunks=(chunk("a", 0, 8, 0.5), chunk("b", 2, 11, 0.3), chunk(1, 0, 3, 0.2)),
    label="x",
)
KNOWN = KnownLabels(("x", "y"), np.array([0, -1, -1, -1, -1, -1]))


def with_chunk(index: int, **changes: object) -> Callable[[EvidencePack], EvidencePack]:
    def mutate(pack: EvidencePack) -> EvidencePack:
        chunks = list(pack.chunks)
        chunks[index] = dataclasses.replace(chunks[index], **changes)
        return dataclasses.replace(pack, chunks=tuple(chunks))

    return mutate


def with_neighbour(index: int, **changes: object) -> Callable[[EvidencePack], EvidencePack]:
    def mutate(pack: EvidencePack) -> EvidencePack:
        neighbours = list(pack.neighbours)
        neighbours[index] = dataclasses.replace(neighbours[index], **changes)
        return dataclasses.replace(pack, neighbours=tuple(neighbours))

    return mutate


def with_more(*entries: SelectedNeighbour | SelectedChunk) -> Callable[[EvidencePack], EvidencePack]:
    def mutate(pack: EvidencePack) -> EvidencePack:
        neighbours = tuple(entry for entry in entries if isinstance(entry, SelectedNeighbour))
        chunks = tuple(entry for entry in entries if isinstance(entry, SelectedChunk))
        return dataclasses.replace(pack, neighbours=pack.neighbours + neighbours, chunks=pack.chunks + chunks)

    return mutate


def with_all(**changes: object) -> Callable[[EvidencePack], EvidencePack]:
    return lambda pack: dataclasses.replace(pack, **changes)  # type: ignore[arg-type]


def test_sound_evidence_holds() -> None:
    found = verify([SOUND, dataclasses.replace(SOUND, evidence_share=1.0)], IDS, TEXTS, known=KNOWN)
    assert found.checked == 2
    assert found.violations == ()
    assert found.holds


def test_without_words_there_is_nothing_to_quote() -> None:
    """Of an empty text whose features were given, all of it is selected; an encoder makes no chunk of one."""
    bare = dataclasses.replace(SOUND, chunks=())
    empty = dataclasses.replace(SOUND, chunks=(SelectedChunk("a", 0, 0, 1.0, text_digest("")),))
    (fault,) = verify([bare, empty], IDS, [" "] * 6).violations
    assert "the chunk [0:0] was taken from a text of node 'a' with another SHA-256" in fault
    assert verify([bare, empty], IDS, [""] * 6).holds


@pytest.mark.parametrize(
    ("mutate", "violation"),
    [
        (with_chunk(1, node="z"), "the chunk [2:11] comes from node 'z', which is not in the folder"),
        (
            with_chunk(1, node="d", sha256=text_digest("Farther.")),
            "the chunk [2:11] comes from node 'd', which is not among the selected neighbours",
        ),
        (  # an integer and its decimal string are two nodes
            with_chunk(2, node="1", sha256=text_digest("the string one")),
            "the chunk [0:3] comes from node '1', which is not among the selected neighbours",
        ),
        (
            with_chunk(1, sha256=text_digest("another text")),
            "the chunk [2:11] was taken from a text of node 'b' with another SHA-256 than the present one",
        ),
        (with_chunk(0, end=17), "the chunk [0:17] lies outside the 16 characters of the text of node 'a'"),
        (with_chunk(0, start=-1), "the chunk [-1:8] lies outside the 16 characters of the text of node 'a'"),
        (with_chunk(0, start=9), "the chunk [9:8] lies outside the 16 characters of the text of node 'a'"),
        (with_chunk(0, start=8), "the chunk [8:8] is empty in the text of node 'a'"),
        (
            with_chunk(0, weight=-0.5),
            "the weights of the chunks include -0.5, but a weight is finite and not negative",
        ),
        (
            with_chunk(0, weight=float("nan")),
            "the weights of the chunks include nan, but a weight is finite and not negative",
        ),
        (with_chunk(0, weight=0.6), "the weights of the chunks sum to 1.1, not to 1"),
        (with_neighbour(1, weight=0.7), "the weights at hop 1 sum to 0.95, not to 1"),
        (with_neighbour(3, weight=1.0002), "the weights at hop 2 sum to 1.0002, not to 1"),
        (
            with_neighbour(1, weight=-0.1),
            "the weights at hop 1 include -0.1, but a weight is finite and not negative",
        ),
        (with_neighbour(3, node="z"), "the selected neighbour 'z' is not in the folder"),
        (
            with_more(SelectedNeighbour("d", 1, 0.0), SelectedNeighbour("1", 1, 0.0)),
            "the budget at hop 1 is 3, but the pack has 4 there",
        ),
        (with_more(SelectedNeighbour("d", 3, 1.0)), "the budget at hop 3 is 0, but the pack has 1 there"),
        (
            with_more(chunk("a", 9, 12, 0.0), chunk("a", 12, 15, 0.0)),
            "the budget of chunks is 4, but the pack has 5",
        ),
        (with_all(neighbours=(), chunks=()), "the node itself is not selected at hop 0"),
        (with_all(chunks=()), "no chunk is selected, although the selected nodes have text"),
        (with_more(SelectedNeighbour("b", 1, 0.0)), "'b' is selected 2 times"),
        (with_more(SelectedNeighbour("b", 2, 0.0)), "'b' is selected 2 times"),
        (with_more(SelectedNeighbour("a", 2, 0.0)), "the node itself stands at hop 2"),
        (with_more(chunk("b", 2, 11, 0.0)), "the chunk [2:11] of node 'b' is selected 2 times"),
        (with_all(evidence_share=7.0), "the share of the evidence is 7, but it lies in [0, 1]"),
        (with_all(evidence_share=-3.0), "the share of the evidence is -3, but it lies in [0, 1]"),
        (with_all(prediction="never a class"), "the prediction 'never a class' is no class of the folder"),
        (with_all(label="y"), "the label is 'y', but 'x' in the folder"),
        (with_all(label=None), "the label is None, but 'x' in the folder"),
    ],
)
def test_one_change_is_exactly_one_violation(
    mutate: Callable[[EvidencePack], EvidencePack], violation: str
) -> None:
    packs = [SOUND, mutate(SOUND), SOUND]
    found = verify(packs, IDS, TEXTS, known=KNOWN)
    assert found.violations == (f"node 'a', round 5: {violation}",)
    assert found.checked == 3
    assert not found.holds


def test_a_foreign_node_and_a_foreign_hop_0_are_named() -> None:
    found = verify([dataclasses.replace(SOUND, node="z")], IDS, TEXTS)
    assert found.violations == (
        "node 'z', round 5: the node is not in the folder",
        "node 'z', round 5: hop 0 names node 'a' in place of the node itself",
    )


def test_a_changed_text_is_found() -> None:
    changed = ["The node  itself." if text == TEXTS[0] else text for text in TEXTS]
    found = verify([SOUND], IDS, changed)
    assert len(found.violations) == 1
    assert "another SHA-256" in found.violations[0]


def test_budgets_are_arguments() -> None:
    found = verify([SOUND], IDS, TEXTS, hop_budgets=(1, 1), chunk_budget=2)
    assert [sentence.split(": ")[1] for sentence in found.violations] == [
        "the budget at hop 1 is 1, but the pack has 2 there",
        "the budget at hop 2 is 0, but the pack has 1 there",
        "the budget of chunks is 2, but the pack has 3",
    ]
