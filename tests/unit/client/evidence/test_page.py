"""What an audit page holds, as its compressed block says it; `tests/system/test_audit_pages.py` looks at the page."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.packs import NodeId, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.page.content import Content, block
from fedtag.client.evidence.page.document import document, write_page
from fedtag.client.evidence.page.excerpt import excerpt
from fedtag.client.evidence.page.views import AuditedSite, Views
from fedtag.common.wording.visible import visible
from tests.audited import HOSTILE, chunk, pack, page_blocks, site_of, telling


def written(site: AuditedSite, out: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    write_page(site, out, **options)
    return page_blocks(out.read_text(encoding="utf-8"))


def test_no_word_of_a_node_stands_outside_the_compressed_block(tmp_path: Path) -> None:
    """So that none can be read as markup, whatever it says."""
    write_page(telling(), tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "onerror" not in html
    assert "neighbour decide" not in html
    overview, rest = page_blocks(html)
    assert HOSTILE in rest["names"]
    assert HOSTILE in overview["classes"]


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("served", [False, True])
def test_the_page_loads_nothing_and_allows_only_its_own_script(served: bool) -> None:
    html = document("</title><script>alert(1)</script>", None if served else ({}, {}), None)
    tags = Tags(html).found
    assert {"link", "img", "iframe", "object", "embed"}.isdisjoint(tag for tag, _ in tags)
    assert all(a.keys().isdisjoint({"src", "action", "onclick", "style"}) for _, a in tags)
    assert all((a.get("href") or "#").startswith("#") for _, a in tags)
    policy = next(a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert ("connect-src 'self'" in policy) == served
    for kind, pattern in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        (source,) = re.findall(pattern, html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
        assert "unsafe" not in policy
    assert "@import" not in html
    assert "innerHTML" not in html


texts_with_spans = st.tuples(
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=4),
)


@settings(deadline=None, max_examples=60)
@given(texts_with_spans, st.integers(0, 12), st.integers(0, 5))
def test_an_excerpt_is_literal_and_holds_every_span(
    given_text: tuple[str, list[tuple[int, int]]], whole: int, margin: int
) -> None:
    text, spans = given_text
    parts = excerpt(text, spans, whole, margin)
    shown = "\r".join(visible(part) for part in text.split("\r"))
    for begin, characters in parts:
        assert shown[begin : begin + len(characters)] == characters
    covered = {begin + place for begin, characters in parts for place in range(len(characters))}
    assert sum(len(characters) for _, characters in parts) == len(covered)
    assert [begin for begin, _ in parts] == sorted(begin for begin, _ in parts)
    for start, end in spans:
        if 0 <= start < end <= len(text) and end - start <= 2 * whole:
            assert covered >= set(range(start, end))
    if len(text) <= whole:
        assert covered == set(range(len(text)))


def test_a_long_text_shows_windows() -> None:
    text = "x" * 5_000_000 + "needle" + "y" * 5_000_000
    assert excerpt(text, [(5_000_000, 5_000_006)]) == [(4_999_250, "x" * 750 + "needle" + "y" * 750)]
    assert excerpt(text, []) == [(0, "x" * 1500)]


def test_the_overview_counts_what_a_loop_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    names = ["red", "green", "blue"]
    texts: dict[NodeId, str] = dict.fromkeys(range(60), "text")
    packs = [
        pack(
            node,
            [chunk(texts, node, 0, 4, 1.0)],
            prediction=str(rng.choice(names)),
            label=None if node % 5 == 0 else str(rng.choice(names)),
            confidence=float(rng.random()),
        )
        for node in range(60)
    ]
    splits = ["test" if node % 2 else "train" for node in range(60)]
    site = site_of(packs, texts, splits=splits)
    overview, rest = written(site, tmp_path / "page.html")
    assert (overview["total"], overview["held"], overview["faulty"], overview["rounds"]) == (60, 60, 0, [12])
    for row in overview["byClass"]:
        of = [one for one in packs if one.label == overview["classes"][row["class"]]]
        missed = [one for one in of if one.prediction != one.label]
        taken = [one.prediction for one in missed]
        assert (row["nodes"], row["wrong"]) == (len(of), len(missed))
        assert row["test"] == sum(splits[one.node] == "test" for one in of)  # type: ignore[index]
        assert row["testWrong"] == sum(splits[one.node] == "test" for one in missed)  # type: ignore[index]
        assert row["takenNodes"] == max(map(taken.count, names))
    assert [row["wrong"] for row in overview["byClass"]] == sorted(
        (row["wrong"] for row in overview["byClass"]), reverse=True
    )
    known = [one for one in packs if one.label is not None]
    assert sum(row["nodes"] for row in overview["byClass"]) == len(known)
    assert sum(right + wrong for right, wrong in overview["bins"]) == len(known)
    for place, (right, wrong) in enumerate(overview["bins"]):
        inside = [one for one in known if place / 10 <= one.confidence < (place + 1) / 10]
        assert (right, wrong) == (
            sum(one.prediction == one.label for one in inside),
            sum(one.prediction != one.label for one in inside),
        )
    surely = max((one for one in known if one.prediction != one.label), key=lambda one: one.confidence)
    (reading,) = [one for one in overview["reading"] if one["only"] == "wrong"]
    assert reading["first"][0] == [surely.node, str(surely.node)]
    assert rest["index"]["nodes"] == [str(node) for node in range(60)]


def test_a_sample_is_drawn_by_the_evidence_and_by_nobody() -> None:
    texts: dict[NodeId, str] = dict.fromkeys(range(300), "text")
    packs = [pack(node, []) for node in range(300)]
    drawn = Content(Views(site_of(packs, texts)), 50).drawn
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 50
    assert Content(Views(site_of(packs, texts, title="other")), 50).drawn == drawn
    other = [dataclasses.replace(one, model="other") for one in packs]
    assert Content(Views(site_of(other, texts)), 50).drawn != drawn
    assert Content(Views(site_of(packs[:7], texts)), 50).drawn == list(range(7))
    often = np.zeros(300)
    for number in range(200):
        changed = [dataclasses.replace(packs[0], model=str(number)), *packs[1:]]
        often[Content(Views(site_of(changed, texts)), 50).drawn] += 1
    # 200 draws of 50 among 300: 33.3 each, with a deviation of 5.3.
    assert often.min() > 8
    assert often.max() < 62


def test_a_page_without_room_holds_what_is_worth_reading_first(tmp_path: Path) -> None:
    count = 400
    texts: dict[NodeId, str] = {node: f"text of {node}" for node in range(count)}
    packs = [
        pack(
            node,
            [chunk(texts, node, 0, 4, 1.0)],
            label="Theory" if node % 2 else "Rules",
            confidence=node / count,
        )
        for node in range(count)
    ]
    packs[7] = dataclasses.replace(packs[7], chunks=(SelectedChunk(7, 0, 4, 1.0, text_digest("old")),))
    site = site_of(packs, texts)
    out = tmp_path / "page.html"
    overview, rest = written(site, out, most=100)
    nodes = rest["index"]["nodes"]
    assert (len(nodes), overview["held"], overview["total"]) == (100, 100, count)
    assert nodes[0] == "7"
    assert len(overview["sample"]) == len(set(overview["sample"]) & set(rest["index"]["rows"])) == 50
    assert nodes[-1] not in {str(node) for node in range(1, count, 2)}
    whole = out.stat().st_size
    assert write_page(site, out, most_bytes=whole) < count
    assert out.stat().st_size <= whole
    assert write_page(site, out, most_bytes=1) == 1


def test_views_say_what_the_packs_say() -> None:
    site = telling()
    content = Content(Views(site))
    assert content.order.tolist()[0] == 2
    data = block(content, list(range(len(site.packs))))
    names = data["names"]
    assert names[: len(site.packs)] == [visible(str(one.node)) for one in site.packs]
    assert data["packs"] == [*range(len(site.packs)), None]
    assert [view["own"] for view in data["views"]] == list(range(len(site.packs)))
    for one, view in zip(site.packs, data["views"], strict=True):
        assert [[names[place], *rest] for place, *rest, _ in view["kept"]] == [
            [visible(str(near.node)), near.hop, near.weight] for near in one.neighbours
        ]
        assert [[names[place], *rest] for place, *rest, _ in view["spans"]] == [
            [visible(str(span.node)), span.start, span.end, span.weight] for span in one.chunks
        ]
    first = data["views"][0]
    # n0 is adjacent to n1, n5 and n6, of which n1 was kept; n4 and n7 lie two hops away, of which n4 was kept.
    assert [(count, [names[place] for place in some]) for count, some in first["passed"]] == [
        (2, ["n5", "n6"]),
        (1, ["n7"]),
    ]
    assert [names[place] for place in first["kept"][2][3]] == ["n1"]
    assert first["cited"] == [0, 1]
    assert first["measured"]["fell"]
    broken = data["views"][2]
    assert "another SHA-256" in broken["spans"][0][4]
    assert broken["faults"]
    sizes = dict(zip(names, (size for size, _ in data["texts"]), strict=True))
    assert sizes["n2"] == len(site.texts[2])


def test_a_node_that_is_not_in_the_folder_has_no_text() -> None:
    texts: dict[NodeId, str] = {1: "text"}
    one = pack(1, [SelectedChunk(2, 0, 4, 1.0, "")], neighbours=(SelectedNeighbour(1, 0, 1.0),))
    data = block(Content(Views(site_of([one], texts))), [0])
    assert data["names"] == ["1", "2"]
    assert data["texts"][1] == [None, None]
    assert "not in the folder" in data["views"][0]["spans"][0][4]


def test_a_pack_beyond_all_budgets_makes_no_endless_page() -> None:
    texts: dict[NodeId, str] = {1: "x" * 2000}
    one = pack(1, [chunk(texts, 1, place, place + 1, 1 / 1000) for place in range(1000)])
    (view,) = block(Content(Views(site_of([one], texts))), [0])["views"]
    assert len(view["spans"]) == 50
    assert "the budget of chunks is 4, but the pack has 1000" in " ".join(view["faults"])


def test_the_same_packs_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_page(telling(), tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_does_not_stop_the_page(text: str, tmp_path: Path) -> None:
    texts: dict[NodeId, str] = {1: text}
    _, rest = written(site_of([pack(1, [chunk(texts, 1, 0, len(text), 1.0)])], texts), tmp_path / "page.html")
    assert rest["texts"][0] == [len(text), [[0, text[:-1] + "\ufffd"]]]
