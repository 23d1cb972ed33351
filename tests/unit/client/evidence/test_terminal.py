from __future__ import annotations

import dataclasses
import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.terminal import evidence_view
from fedtag.client.text.citations import CitedSentence

IDS = ("a", 7)
TEXTS = ("[bold]Not markup[/bold]. [red]x", "Second: words of a neighbour.")


def told(text: str) -> Account:
    """An account of one sentence."""
    return Account((CitedSentence(text, (), "added"),), 0, 9, 3, 90, 900)


PACK = EvidencePack(
    node="a",
    kind="core",
    round=9,
    model="0123456789abcdef0123",
    prediction="[green]Theory",
    confidence=0.9,
    neighbours=(SelectedNeighbour("a", 0, 1.0), SelectedNeighbour(7, 1, 1.0)),
    chunks=(
        SelectedChunk("a", 0, 23, 0.25, text_digest(TEXTS[0])),
        SelectedChunk(7, 8, 13, 0.75, text_digest(TEXTS[1])),
    ),
    account=told("Two [bold]texts[/bold]."),
    evidence_share=0.5,
    label="Rules",
)


def printed(
    pack: EvidencePack,
    texts: tuple[str, ...] = TEXTS,
    colour: bool = False,
    measured: NodeFaithfulness | None = None,
) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=140, force_terminal=colour, color_system="truecolor" if colour else None
    )
    console.print(evidence_view(pack, IDS, texts, measured=measured))
    return stream.getvalue()


def test_shows_what_decided_and_from_where() -> None:
    lines = [" ".join(line.split()) for line in printed(PACK).splitlines()]
    assert lines[0] == "Node a predicted [green]Theory confidence 90.0% wrong: the label is Rules"
    assert "round 9, core node, model 0123456789abcdef" in lines
    assert any(
        line.startswith("50% of the score came through the quoted evidence and its neighbours, the rest")
        for line in lines
    )
    assert (
        "The span with the largest weight: span 1, 75% of the weight of the selected text, from node 7 (neighbour)"
        in lines
    )
    assert any(line.startswith("A weight says where the model looked, not how much") for line in lines)
    assert not any("Most of this prediction" in line or "No span comes" in line for line in lines)
    first = lines.index(f"1 {'█' * 15}{'░' * 5} 0.750 node 7 (neighbour), characters 8–13 ✓ verified")
    assert lines[first + 1] == "words"
    second = lines.index(f"2 {'█' * 5}{'░' * 15} 0.250 node a (the node itself), characters 0–23 ✓ verified")
    assert lines[second + 1] == "[bold]Not markup[/bold]"
    assert "Two [bold]texts[/bold]." in lines
    assert any(
        line.startswith("1 neighbour 7 █") and line.endswith("words of a neighbour.") for line in lines
    )


def test_what_masking_did() -> None:
    measured = NodeFaithfulness(0.9, 0.45, 0.2, 0.88, 0.95)
    lines = " ".join(printed(PACK, measured=measured).split())
    assert "The deciding span: span 1" in lines
    assert "Without it the probability fell by 45.0 points, from 90.0% to 45.0%; without all" in lines
    assert (
        "spans it is 20.0%, without as many random ones 88.0%, with no other text in the graph 95.0%" in lines
    )
    assert "did not lower" not in lines
    assert "Without it" not in printed(PACK)
    same = dataclasses.replace(measured, without_strongest=0.9003)
    lines = " ".join(printed(PACK, measured=same).split())
    assert "The span with the largest weight: span 1" in lines
    assert "Without it the probability did not change (90.0%)" in lines
    assert "Here, removing it did not lower the probability: other text says the same" in lines


def test_a_low_share_and_a_silent_node_are_said() -> None:
    pack = dataclasses.replace(PACK, evidence_share=0.2, chunks=PACK.chunks[1:])
    lines = " ".join(printed(pack).split())
    assert "Most of this prediction came from other inputs" in lines
    assert "No span comes from this node's own text" in lines


def test_a_second_neighbour_is_reached_through_someone() -> None:
    neighbours = (SelectedNeighbour("a", 0, 1.0), SelectedNeighbour("c", 2, 0.0001))
    pack = dataclasses.replace(PACK, neighbours=neighbours, chunks=PACK.chunks[:1])
    stream = io.StringIO()
    view = evidence_view(pack, ("a", "\x1b7", "c"), (*TEXTS, "third"), edges=np.array([(0, 1), (1, 2)]))
    Console(file=stream, width=140).print(view)
    lines = " ".join(stream.getvalue().split())
    assert "2 neighbour of a neighbour c (through \ufffd7)" in lines
    assert "< 0.001" in lines


def test_a_long_name_is_whole() -> None:
    long = "scipy.sparse.linalg." + "Q" * 200
    neighbours = (SelectedNeighbour("a", 0, 1.0), SelectedNeighbour(long, 1, 1.0))
    stream = io.StringIO()
    pack = dataclasses.replace(PACK, neighbours=neighbours, chunks=PACK.chunks[:1])
    Console(file=stream, width=100).print(evidence_view(pack, ("a", long), TEXTS))
    table = stream.getvalue().split("Selected spans")[0]
    assert "…" not in table
    # The name is folded over lines of its column, whose cells stand side by side.
    assert table.count("Q") == 200


def test_a_right_prediction() -> None:
    assert "90.0%  correct" in printed(dataclasses.replace(PACK, label=PACK.prediction))
    assert "correct" not in printed(dataclasses.replace(PACK, label=None))


def test_changed_texts_and_unknown_sources_are_not_verified() -> None:
    out = printed(PACK, ("Other", TEXTS[1]))
    assert out.count("✗ not verified") == 1
    assert "another SHA-256" in out
    gone = dataclasses.replace(PACK.chunks[0], node="gone")
    out = printed(dataclasses.replace(PACK, chunks=(gone,), account=None))
    assert "not a selected neighbour" in out
    assert "Summary" not in out


def test_no_text_selected() -> None:
    assert "No text was selected." in printed(dataclasses.replace(PACK, chunks=()))


@settings(deadline=None, max_examples=50)
@given(st.text(min_size=1, max_size=30))
def test_a_text_cannot_steer_the_terminal(text: str) -> None:
    hostile = text + "\x1b[31m\x9b2J\x07\u202e\r"
    chunk = SelectedChunk("a", 0, len(hostile), 1.0, text_digest(hostile))
    pack = dataclasses.replace(
        PACK, chunks=(chunk,), account=told(hostile), prediction=hostile, label=hostile + "!", model="\x1b"
    )
    out = printed(pack, (hostile, TEXTS[1]))
    assert not set(out) & set("\x1b\x9b\x07\u202e\r")
    assert "\ufffd[31m\ufffd2J\ufffd\ufffd\ufffd" in "".join(out.split())


def test_a_very_long_span_is_cut() -> None:
    text = "x" * 10_000
    chunk = SelectedChunk("a", 0, 10_000, 1.0, text_digest(text))
    out = printed(dataclasses.replace(PACK, chunks=(chunk,)), (text, TEXTS[1]))
    assert "… 6000 more characters" in " ".join(out.split())
    assert len(out) < 8000
