from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import tempfile
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.measured import MeasuredSite, NodeFaithfulness
from fedtag.client.evidence.packs import EvidencePack, NodeId, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.page import write_page
from fedtag.client.text.citations import CitedSentence
from fedtag.common.wording.visible import visible

VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """What an HTML parser makes of the page: marked text by source and span, tags, visible words."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        # A parser reads a bare carriage return as a line feed, which Python's leaves to its caller.
        self.marks: dict[tuple[str, str], str] = {}
        self.titles: list[str] = []
        self.sources: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html.replace("\r\n", "\n").replace("\r", "\n"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))
        if tag == "mark":
            self.titles.append(dict(attrs)["title"] or "")

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1][0] in ("script", "style"):
            return
        self.words.append(data)
        classes = [attributes.get("class") or "" for _, attributes in self._open]
        source = next((a["data-node"] for tag, a in self._open if tag == "section"), None)
        if source is None or "text" not in classes or classes[-1] in ("figure", "gap"):
            return
        self.sources[source] = self.sources.get(source, "") + data
        if self._open[-1][0] == "mark":
            for span in (self._open[-1][1]["data-spans"] or "").split():
                self.marks[source, span] = self.marks.get((source, span), "") + data

    @property
    def visible(self) -> str:
        return " ".join("".join(self.words).split())


def told(text: str) -> Account:
    """An account of one sentence."""
    return Account((CitedSentence(text, (), "added"),), 0, 9, 3, 90, 900)


def pack(node: NodeId, chunks: Sequence[SelectedChunk], **changes: object) -> EvidencePack:
    others = [SelectedNeighbour(other, 1, 1.0) for other in {chunk.node for chunk in chunks} - {node}]
    base = EvidencePack(
        node=node,
        kind="scored",
        round=12,
        model="9f2c",
        prediction="Theory",
        confidence=0.875,
        neighbours=(SelectedNeighbour(node, 0, 1.0), *others),
        chunks=tuple(chunks),
    )
    return dataclasses.replace(base, **changes)


def render(packs: Sequence[EvidencePack], texts: dict[NodeId, str], **options: object) -> Page:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "page.html"
        write_page(packs, list(texts), list(texts.values()), out, "Site <1> & co", **options)  # type: ignore[arg-type]
        return Page(out.read_bytes().decode("utf-8"))


def chunk(texts: dict[NodeId, str], node: NodeId, start: int, end: int, weight: float) -> SelectedChunk:
    return SelectedChunk(node, start, end, weight, text_digest(texts[node]))


@st.composite
def selections(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    markup = st.sampled_from(
        ["<script>", "</mark>", "&lt;", "&#13;", "\r\n", "\r", "-->", "{{ 1 }}", "אב", "\n"]
    )
    text = "".join(
        draw(st.lists(st.one_of(st.text(min_size=1, max_size=6), markup), min_size=1, max_size=12))
    )
    borders = st.integers(0, len(text))
    spans = draw(st.lists(st.tuples(borders, borders).filter(lambda s: s[0] < s[1]), min_size=1, max_size=4))
    return text, spans


@settings(deadline=None, max_examples=40)
@given(selections())
def test_marked_text_is_literal(selection: tuple[str, list[tuple[int, int]]]) -> None:
    text, spans = selection
    texts: dict[NodeId, str] = {"v": text}
    weights = [0.4, 0.3, 0.2, 0.1][: len(spans)]
    chunks = [chunk(texts, "v", *span, weight) for span, weight in zip(spans, weights, strict=True)]
    page = render([pack("v", chunks)], texts)
    # Carriage returns stay; what else would steer is replaced, one character by one.
    shown = "\r".join(map(visible, text.split("\r")))
    assert page.sources["v"] == shown
    for number, (start, end) in enumerate(spans, start=1):
        assert page.marks["v", str(number)] == shown[start:end]


def test_hostile_text_stays_text() -> None:
    hostile = '</mark></script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}" autofocus'
    texts: dict[NodeId, str] = {hostile: hostile, "2": "plain"}
    evidence = pack(
        hostile,
        [chunk(texts, hostile, 0, len(hostile), 1.0)],
        prediction=hostile,
        label=hostile + "!",
        model=hostile,
        account=told(hostile),
    )
    harmless = render([pack("2", [chunk(texts, "2", 0, 5, 1.0)], label="x", account=told("y"))], texts)
    page = render([evidence], texts)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(attributes) for _, attributes in page.tags] == [sorted(a) for _, a in harmless.tags]
    assert page.marks[hostile, "1"] == hostile
    assert page.visible.count("<script>alert(1)</script>") >= 6


def test_the_page_loads_nothing_and_allows_only_its_own_script(tmp_path: Path) -> None:
    texts: dict[NodeId, str] = {"v": "see https://example.org/x"}
    out = tmp_path / "page.html"
    write_page([pack("v", [chunk(texts, "v", 0, 3, 1.0)])], ["v"], list(texts.values()), out, "t")
    html = out.read_text()
    tags = Page(html).tags
    assert {"link", "img", "iframe", "object", "embed"}.isdisjoint(tag for tag, _ in tags)
    assert all(a.keys().isdisjoint({"src", "action", "onclick"}) for _, a in tags)
    assert all((a.get("href") or "#").startswith("#") for _, a in tags)
    assert "url(" not in html
    assert "@import" not in html
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", html, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy


def test_an_auditor_reads_what_decided_and_where_it_came_from() -> None:
    texts: dict[NodeId, str] = {1: "My own words. More.", 22: "The words of a neighbour decide."}
    chunks = [chunk(texts, 1, 0, 13, 0.25), chunk(texts, 22, 4, 9, 0.75)]
    page = render(
        [pack(1, chunks, label="Rules", evidence_share=0.62, account=told("It says so [1]."))], texts
    )
    for sentence in (
        "Predicted Theory with 87.5 % confidence: ✗ wrong, the label is Rules",
        "The span with the largest weight, 1, carries 75 % of the weight of the selected text.",
        "It comes from a neighbour (hop 1), node 22: words",
        "62 % of the score came through the quoted evidence (these spans and, as context, the selected",
        "its share among the selected spans of this node, which sum to 1",
        "A neighbour's weight is its share within its hop: the weights of each hop sum to 1.",
        "1 0.750 from node 22 (neighbour) · characters 4–9 · ✓ SHA-256 verified words",
        "2 0.250 from node 1 (the node itself) · characters 0–13 · ✓ SHA-256 verified My own words.",
        "It says so [1].",
        "The 1: 0.750 words of a neighbour decide.",
        "Round 12 · scored node · model 9f2c · ✓ all spans verified",
        "1 evidence pack checked, round 12: ✓ no violation",
    ):
        assert sentence in page.visible
    assert page.titles == ["span 1, weight 0.750, characters 4–9", "span 2, weight 0.250, characters 0–13"]
    assert all(a["dir"] == "auto" for _, a in page.tags if a.get("class") == "text")


def test_a_right_prediction_and_an_unknown_label_read_differently() -> None:
    texts: dict[NodeId, str] = {1: "text"}
    page = render([pack(1, [], label="Theory"), pack(1, [])], texts)
    assert "confidence: ✓ correct" in page.visible
    assert "confidence (no label known here)" in page.visible
    assert "No text was selected for this node." in page.visible
    assert [a["class"] for tag, a in page.tags if tag == "a" and "class" in a] == ["right", ""]


def test_spans_that_do_not_verify_say_so_and_come_first() -> None:
    texts: dict[NodeId, str] = {1: "text of one", 2: "text of two"}
    sound = pack(1, [chunk(texts, 1, 0, 4, 1.0)])
    broken = pack(
        2,
        [
            dataclasses.replace(chunk(texts, 2, 0, 4, 0.4), sha256=text_digest("old")),
            chunk(texts, 2, 5, 99, 0.3),
            chunk(texts, 2, 7, 3, 0.2),
            SelectedChunk("gone", 0, 4, 0.1, ""),
        ],
    )
    page = render([sound, broken], texts, per_page=1)
    assert "2 evidence packs checked, round 12: ✗ 1 with violations" in page.visible
    assert "This page shows 1 of them, violations first; the search finds" in page.visible
    assert [a["data-node"] for tag, a in page.tags if tag == "section"] == ["2", "gone"]
    for reason in ("another SHA-256", "lies outside the 11 characters", "not in the folder"):
        assert "✗ not verified: this span" in page.visible
        assert reason in page.visible
    assert "✓" not in page.visible.split("Node 2", 1)[1]
    assert page.marks == {("2", "1"): "text"}
    assert page.marks["2", "1"] == "text"


def test_a_long_text_shows_windows(tmp_path: Path) -> None:
    texts: dict[NodeId, str] = {1: "x" * 5_000_000 + "needle" + "y" * 5_000_000}
    page = render([pack(1, [chunk(texts, 1, 5_000_000, 5_000_006, 1.0)])], texts)
    assert page.marks["1", "1"] == "needle"
    assert page.sources["1"] == "x" * 750 + "needle" + "y" * 750
    assert page.visible.count("… 4999250 characters not shown …") == 2


def test_every_node_stands_on_one_of_the_pages_and_each_page_finds_all(tmp_path: Path) -> None:
    ids: list[NodeId] = [f"n{number}<&>" for number in range(5)]
    texts: dict[NodeId, str] = dict.fromkeys(ids, "text")
    packs = [pack(node, [chunk(texts, node, 0, 4, 1.0)]) for node in ids]
    out = tmp_path / "page.html"
    files = write_page(packs, ids, list(texts.values()), out, "t", per_page=2)
    assert files == (out, tmp_path / "page-2.html", tmp_path / "page-3.html")
    shown = []
    for file in files:
        html = file.read_text()
        page = Page(html)
        own = [a["data-node"] for tag, a in page.tags if tag == "section"]
        (data,) = re.findall(r'<script type="application/json" id="elsewhere">(.*?)</script>', html)
        assert "<" not in data
        others = json.loads(data)
        assert {*own, *(node for nodes in others.values() for node in nodes)} == set(ids)
        assert set(others) == {other.name for other in files} - {file.name}
        links = {a["href"] for tag, a in page.tags if tag == "a" and (a["href"] or "").endswith(".html")}
        assert links == set(others)
        shown += own
    assert shown == ids
    assert (
        "This page shows 2 of them; the search finds those of the other pages too."
        in Page(out.read_text()).visible
    )
    assert "No evidence to show." in render([], texts).visible


def test_a_long_name_is_whole_and_the_split_is_named() -> None:
    long = "scipy.sparse.linalg." + "x" * 300
    texts: dict[NodeId, str] = {long: "text", "b": "other"}
    packs = [pack(long, [chunk(texts, "b", 0, 5, 1.0)]), pack("b", [])]
    page = render(packs, texts, splits=["test", "none"])
    names = [a["title"] for tag, a in page.tags if tag == "bdi" and a.get("class") == "name"]
    assert names.count(long) >= 3
    assert page.visible.count(long) >= 3
    assert f"Node {long} test node" in page.visible
    assert "Node b in no split" in page.visible
    assert [
        a["class"]
        for tag, a in page.tags
        if tag == "a" and "class" in a and "badge" not in (a["class"] or "")
    ] == [
        " test",
        "",
    ]


def test_what_masking_did_to_a_node_stands_beside_its_deciding_span(measured_summary: dict[str, Any]) -> None:
    texts: dict[NodeId, str] = {1: "My own words. More.", 2: "Other"}
    nodes = {1: NodeFaithfulness(0.875, 0.4021, 0.25, 0.86, 0.9)}
    packs = [pack(1, [chunk(texts, 1, 0, 13, 1.0)]), pack(2, [chunk(texts, 2, 0, 5, 1.0)])]
    page = render(packs, texts, measured=MeasuredSite("9f2c", measured_summary, nodes))
    for sentence in (
        "It comes from the node's own text (hop 0): My own words.",
        "With this span cut out of the text, the probability of Theory fell by 47.3 points, from 87.5 % to 40.2 %.",
        "The deciding span, 1, carries 100 %",
        "The span with the largest weight, 1, carries 100 %",
        "Few nodes: wide intervals, read no verdict into them",
        "Dense attention is what the model would look at without any selection",
        "mean probability012chunks removed",
        "mean probability012chunks kept",
        "Without all selected spans it is 25.0 %, without as many random spans 86.0 %",
        "and with no text in the graph but the selected spans 90.0 %.",
        "Measured on 2 test nodes of this site",
        "without the evidence",
        "The model as it is",
        "The same with the bypass off",
        "0 of 2 nodes over it",
    ):
        assert sentence in page.visible
    assert page.visible.count("With this span cut out") == 1
    assert "did not lower" not in page.visible
    assert all("open" in attributes for _, attributes in page.tags if attributes.get("class") == "measured")
    points = [a["points"] for tag, a in page.tags if tag == "polyline"]
    # p = 0.8, 0.6, 0.3 over 0, 1, 2 chunks, 150 high and 300 wide
    assert points[0] == "0.0,30.0 150.0,60.0 300.0,105.0"


def test_a_span_that_does_not_matter_is_not_called_deciding(measured_summary: dict[str, Any]) -> None:
    texts: dict[NodeId, str] = {1: "My own words. More."}
    site = MeasuredSite("9f2c", measured_summary, {1: NodeFaithfulness(0.9954, 0.9946, 0.25, 0.86, 0.9)})
    page = render([pack(1, [chunk(texts, 1, 0, 13, 1.0)])], texts, measured=site)
    assert "The span with the largest weight, 1, carries" in page.visible
    assert (
        "the probability of Theory did not change (99.5 %). Here, removing it did not lower" in page.visible
    )
    assert "deciding" not in page.visible


def test_what_a_reader_must_know_is_said_and_marked(measured_summary: dict[str, Any]) -> None:
    texts: dict[NodeId, str] = {1: "My own words.", 2: "Other"}
    site = MeasuredSite("9f2c", measured_summary, {1: NodeFaithfulness(0.9, 0.1, 0.25, 0.86, 0.9)})
    first = pack(1, [chunk(texts, 2, 0, 5, 0.9999), chunk(texts, 2, 1, 4, 0.0001)], evidence_share=0.49)
    second = pack(2, [chunk(texts, 2, 0, 5, 1.0)], evidence_share=0.5, account=told("So."))
    page = render([first, second], texts, measured=site)
    assert "A weight says where the model looked, not how much it mattered" in page.visible
    assert page.visible.count("Most of this prediction came from other inputs") == 1
    assert page.visible.count("No span comes from this node's own text.") == 1
    assert page.visible.count("Written by a language model from the quoted spans; not checked") == 1
    assert "2 < 0.001 from node 2" in page.visible
    assert "0.000" not in page.visible.split("Node 1", 1)[1]
    assert "1 Theory measuredMy own words." in page.visible
    assert "2 Theory summaryOther" in page.visible
    classes = [a["class"] for tag, a in page.tags if tag == "a" and "class" in a and a["class"] != "badge"]
    assert classes == [" faithful", " summarised"]
    options = {a["value"] for tag, a in page.tags if tag == "option"}
    assert options >= {"faithful", "summarised"}


def test_a_second_neighbour_is_named_with_those_between() -> None:
    ids: list[NodeId] = [1, 2, 3, 4, 5, 6]
    texts: dict[NodeId, str] = dict.fromkeys(ids, "text")
    hops = (SelectedNeighbour(1, 0, 1.0), SelectedNeighbour(4, 1, 1.0), SelectedNeighbour(6, 2, 1.0))
    evidence = pack(1, [chunk(texts, 6, 0, 4, 1.0)], neighbours=hops)
    edges = np.array([(0, place) for place in (1, 2, 3, 4)] + [(place, 5) for place in (1, 2, 3, 4)])
    page = render([evidence], texts, edges=edges)
    assert "a neighbour of a neighbour (hop 2), node 6 through 4, 2, 3 and 1 more: text" in page.visible
    assert page.visible.count("through 4, 2, 3 and 1 more") == 3
    assert "through 4" not in render([evidence], texts).visible


def test_the_same_packs_give_the_same_bytes(tmp_path: Path) -> None:
    texts: dict[NodeId, str] = {1: "one two", "b": "three"}
    packs = [pack(1, [chunk(texts, 1, 0, 3, 0.5), chunk(texts, "b", 0, 5, 0.5)])]
    for name in ("first", "second"):
        write_page(packs, list(texts), list(texts.values()), tmp_path / name, "t")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_does_not_stop_the_page(text: str) -> None:
    texts: dict[NodeId, str] = {1: text}
    page = render([pack(1, [chunk(texts, 1, 0, len(text), 1.0)])], texts)
    assert page.marks["1", "1"] == text[:-1] + "\ufffd"
