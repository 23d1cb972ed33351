"""The audit page as a person sees it: on a desktop, on a phone, in the dark, by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from fedtag.client.evidence.measured import NOT_EFFECT
from fedtag.client.evidence.packs import NodeId, SelectedNeighbour
from fedtag.client.evidence.page.document import write_page
from tests.audited import HOSTILE, chunk, pack, site_of, telling
from tests.browser import DESKTOP, PHONE, Opened, opened
from tests.measured import summary_of_two

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MOST_ELEMENTS = 3000
WORDS = 180  # of a text of the page by which weight is measured, about as long as an abstract


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("audit") / "audit-site.html"
    summary = summary_of_two()
    summary["reports"]["as_trained"]["drop"]["removed"]["random"] = -0.2
    write_page(telling(), out, sample=4, summary=summary)
    return out


def at(page_file: Path, where: str) -> str:
    return f"{page_file.as_uri()}{where}"


ROWS = {one.node: row for row, one in enumerate(telling().packs)}


def node(name: str) -> str:
    return f"#row={ROWS[name]}"


def main(page: Page, heading: str) -> str:
    """The words of the part that has this heading, when it is there."""
    page.locator("main h2", has_text=heading).wait_for()
    return " ".join(page.locator("main").inner_text().split())


PARTS = {
    "": "Overview",
    "#nodes": "Nodes",
    "#sample": "Sample",
    node("n0"): "Node n0",
    node(HOSTILE): "Node <",
}


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_every_part_is_seen(
    browser: Browser, page_file: Path, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    with opened(browser, at(page_file, ""), size, scheme) as shown:
        for where, heading in PARTS.items():
            shown.page.evaluate("where => { location.hash = where; }", where or "#overview")
            main(shown.page, heading)
            assert not shown.overflows()
            assert not shown.grave()
            assert shown.elements() <= MOST_ELEMENTS
        assert not shown.errors


def test_the_overview_says_what_is_wrong_first(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, "")) as shown:
        words = main(shown.page, "Overview")
        for sentence in (
            "Errors by class",
            "Rules 1 1 (100%) 1 of 1 Theory (1)",
            "Evidence that does not verify: 1 node, for example n3",
            "Wrong, the surest first: 2 nodes, for example n0",
            "Right, the least sure first: 5 nodes, for example n2",
            "Most of the prediction came from other inputs: 1 node, for example n0",
            "A sample of 4 nodes, drawn at random",
        ):
            assert sentence in words
        head = " ".join(shown.page.locator("header").inner_text().split())
        assert "8 evidence packs checked, round 12: ✗ 1 with violations" in head
        assert NOT_EFFECT.replace("`", "") in shown.page.locator("footer").inner_text()
        shown.page.get_by_role("link", name="1 (100%)").first.click()
        assert "1 of 8 nodes n0 Theory" in main(shown.page, "Nodes")


def test_numbers_are_written_as_in_the_report(browser: Browser, page_file: Path) -> None:
    """No space before %, and a minus that is none of the hyphens of names."""
    with opened(browser, at(page_file, "")) as shown:
        shown.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        seen = []
        for where, heading in PARTS.items():
            shown.page.evaluate("where => { location.hash = where; }", where or "#overview")
            main(shown.page, heading)
            seen.append(shown.page.locator("body").inner_text())
        words = " ".join(seen)
        assert "87.5%" in words
        assert "−0.200" in words
        assert not re.search(r"\d\s%", words)
        assert not re.search(r"(?:^|[\s(])-\d", words)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_drawings_are_whole_and_equal_curves_are_told_apart(
    browser: Browser, page_file: Path, size: tuple[int, int]
) -> None:
    with opened(browser, at(page_file, ""), size) as shown:
        main(shown.page, "Overview")
        beyond = shown.page.locator("main svg.bins").evaluate(
            "drawing => [...drawing.querySelectorAll('text')].map(one => one.getBoundingClientRect().right"
            " - drawing.getBoundingClientRect().right)"
        )
        assert len(beyond) > 10
        assert max(beyond) <= 0
        looks = (
            shown.page.locator(".plots figure")
            .first.locator("polyline")
            .evaluate_all(
                "all => all.map(one => { const style = getComputedStyle(one);"
                " return [parseFloat(style.strokeWidth), style.strokeDasharray]; })"
            )
        )
        widths, dashes = zip(*looks, strict=True)
        assert list(widths) == sorted(set(widths), reverse=True), "the thinner lies upon the thicker"
        assert len(set(dashes)) == len(looks) == 3
        assert shown.page.locator(".plots figure").first.locator("p svg").count() == 3


def test_no_name_is_broken_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    """A table that is wider than the window is moved in its own place, and words in drawings are not small print."""
    classes, texts = ("Reinforcement_Learning", "Probabilistic_Methods"), dict.fromkeys("abcd", "text")
    packs = [
        pack(one, [chunk(texts, one, 0, 4, 1.0)], prediction=classes[0], label=classes[place % 2])
        for place, one in enumerate(texts)
    ]
    write_page(site_of(packs, texts), tmp_path / "page.html")
    with opened(browser, tmp_path / "page.html", PHONE) as shown:
        main(shown.page, "Overview")
        for words in classes:
            box = shown.page.locator("td .name", has_text=words).first.bounding_box()
            assert box is not None
            assert box["height"] < 25
        for where, heading in (("#overview", "Overview"), ("#row=0", "Node a")):
            shown.page.evaluate("where => { location.hash = where; }", where)
            main(shown.page, heading)
            heights = shown.page.locator("main svg text").evaluate_all(
                "all => all.map(one => one.getBoundingClientRect().height)"
            )
            assert min(heights) > 12
        assert not shown.overflows()


def test_an_auditor_reads_what_decided_and_where_it_came_from(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, node("n0"))) as shown:
        words = main(shown.page, "Node n0")
        for sentence in (
            "Predicted Theory with 87.5% confidence: ✗ wrong, the label is Rules",
            "The deciding span, 1, carries 75% of the weight of the selected text.",
            "It comes from a neighbour (hop 1), node n1: The words of a neighbour decide",
            "42% of the score came through the quoted evidence (these spans and, as context, the selected",
            "Most of this prediction came from other inputs",
            "With the strongest span cut out of the text, the probability of Theory fell by 47.3 points, from 87.5%",
            "without all selected spans 25.0%",
            "without as many random spans 86.0%",
            "with no text in the graph but the selected spans 90.0%",
            "its share among the selected spans of this node, which sum to 1",
            "A neighbour's weight is its share within its hop: the weights of each hop sum to 1.",
            "1 0.750 from node n1 (neighbour) · characters 13–44 · ✓ SHA-256 verified",
            "2 0.250 from node n0 (the node itself) · characters 0–12 · ✓ SHA-256 verified",
            "A neighbour decides [1]. It says so [2].",
            "Written by a language model from the quoted spans; not checked",
            "2 neighbour of a neighbour n4 through n1 1.000 none quoted",
            "2 passed over",
            "1 passed over",
            "Round 12 · scored node · model 9f2c · ✓ all spans verified",
        ):
            assert sentence in words, sentence
        near = shown.page.get_by_role("group", name=re.compile("Neighbourhood"))
        assert "1 neighbours and 1 neighbours of neighbours kept, 2 and 1 passed over" in str(
            near.get_attribute("aria-label")
        )
        assert near.locator("circle.kept").count() == 3
        assert near.locator("circle.passed").count() == 3
        near.get_by_role("link", name="n5, passed over").click()
        main(shown.page, "Node n5")
        shown.page.go_back()
        main(shown.page, "Node n0")
        shown.page.get_by_role("button", name="span 2 in its text").last.click()
        assert shown.page.locator(".shown").inner_text().startswith("2:")


def test_marks_hold_the_very_characters(browser: Browser, page_file: Path) -> None:
    """Also behind characters that JavaScript counts as two."""
    expected = {
        "n0": {"1": "The words of a neighbour decide", "2": "Words of n0."},
        "n2": {"1": "faces come first."},
    }
    expected[HOSTILE] = {"1": HOSTILE}
    for name, spans in expected.items():
        with opened(browser, at(page_file, node(name))) as shown:
            main(shown.page, "Node")
            for number, words in spans.items():
                marks = shown.page.locator(f'mark[data-spans~="{number}"]')
                assert "".join(marks.all_text_contents()) == words


def test_a_hostile_text_stays_text(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, node(HOSTILE))) as shown:
        asked = list[str]()
        shown.page.on("dialog", lambda dialog: (asked.append(dialog.message), dialog.dismiss()))
        words = main(shown.page, "Node <")
        assert words.count("<script>alert(1)</script>") >= 5
        assert shown.page.locator("main script, main img, [autofocus]").count() == 0
        assert not asked
        assert not shown.errors


def test_what_does_not_verify_is_said_in_red_and_nothing_else_is(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, node("n3"))) as shown:
        words = main(shown.page, "Node n3")
        assert "✗ It does not verify." in words
        assert "✗ not verified: this span was taken from a text of node 'n3' with another SHA-256" in words
        assert "✗ violations, see above" in words
        assert "✓" not in words
    with opened(browser, at(page_file, node("n2"))) as shown:
        assert "✓ correct" in main(shown.page, "Node n2")
        assert shown.page.locator("main .bad").count() == 0


def test_keys_turn_the_nodes_of_the_list(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, "#nodes?only=right")) as shown:
        assert "5 of 8 nodes" in main(shown.page, "Nodes")
        shown.page.get_by_role("link", name="n1").press("Enter")
        assert "2 of 5" in main(shown.page, "Node n1")
        shown.page.keyboard.press("ArrowRight")
        main(shown.page, "Node n4")
        shown.page.keyboard.press("ArrowLeft")
        shown.page.locator("main h2", has_text="Node n1").wait_for()
        shown.page.get_by_label("Note").fill("one")
        shown.page.get_by_label("Note").press("ArrowLeft")
        main(shown.page, "Node n1")


def test_words_find_nodes_and_filters_are_an_address(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, "#nodes")) as shown:
        main(shown.page, "Nodes")
        search = shown.page.get_by_label("Find a node, class or words")
        search.fill("FACES words")
        search.press("Enter")
        shown.page.get_by_text("1 of 8 nodes").wait_for()
        shown.page.reload()
        assert "1 of 8 nodes n2" in main(shown.page, "Nodes")
        shown.page.evaluate("location.hash = '#nodes?only=faulty'")
        shown.page.get_by_text("⚠ violation").wait_for()
        shown.page.evaluate("location.hash = '#row=99'")
        assert "This node is not on this page." in main(shown.page, "Row 99")


def test_a_verdict_is_kept_and_exported(browser: Browser, page_file: Path) -> None:
    with opened(browser, at(page_file, "#sample")) as shown:
        assert "0 of 4 read" in main(shown.page, "Sample")
        first = shown.page.locator("main li a").first
        name = first.locator("bdi").first.inner_text()
        first.click()
        main(shown.page, "Node")
        shown.page.get_by_label("In part").check()
        shown.page.get_by_label("Note").fill('says <b>"so"</b>')
        shown.page.get_by_label("Note").blur()
        shown.page.get_by_text(re.compile(r"^kept 20")).wait_for()
        shown.page.goto(at(page_file, "#sample"))
        shown.page.reload()
        assert "1 of 4 read" in main(shown.page, "Sample")
        with shown.page.expect_download() as waiting:
            shown.page.get_by_role("button", name="Export verdicts").click()
        found = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
        assert len(found["verdicts"]) == 4
        (read,) = [one for one in found["verdicts"] if one["verdict"]]
        assert (read["node"], read["verdict"], read["note"]) == (name, "partly", 'says <b>"so"</b>')
        assert read["row"] == ROWS[name]
        assert read["sampled"]
        assert not shown.errors


def drawn_site(count: int, seed: int = 0) -> Any:
    """A site as dense as a client of Cora, with texts that do not compress better than such."""
    rng = np.random.default_rng(seed)
    lexicon = np.array(["".join(rng.choice(list("etaoinshrdlu"), rng.integers(2, 10))) for _ in range(8000)])
    texts: dict[NodeId, str] = {
        f"paper-{number}": " ".join(lexicon[(rng.pareto(1.0, WORDS) * 20).astype(int) % 8000])
        for number in range(count)
    }
    ids = list(texts)
    edges = rng.integers(0, count, (2 * count, 2))
    around: list[set[int]] = [set() for _ in ids]
    for one, other in edges.tolist():
        around[one].add(other)
        around[other].add(one)
    packs = []
    for row, name in enumerate(ids):
        near = sorted(around[row] - {row})[:3]
        far = sorted({two for one in near for two in around[one]} - around[row] - {row})[:2]
        hops = [
            (row, 0, 1.0),
            *((one, 1, 1 / len(near)) for one in near),
            *((one, 2, 1 / len(far)) for one in far),
        ]
        chosen = [one for one, _, _ in hops][:4]
        starts = rng.integers(0, 400, len(chosen)).tolist()
        packs.append(
            pack(
                name,
                [
                    chunk(texts, ids[one], start, start + 120, 1 / len(chosen))
                    for one, start in zip(chosen, starts, strict=True)
                ],
                neighbours=tuple(SelectedNeighbour(ids[one], hop, weight) for one, hop, weight in hops),
                prediction=f"class {rng.integers(0, 7)}",
                label=f"class {rng.integers(0, 7)}",
                confidence=round(float(rng.random()), 7),
                evidence_share=round(float(rng.random()), 7),
            )
        )
    return site_of(packs, texts, splits=["test"] * count, edges=edges)


def seconds_of_work(shown: Opened) -> float:
    """What the page has cost its process until now, in scripts, layout and all else."""
    session = shown.page.context.new_cdp_session(shown.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    shown.page.reload()
    shown.page.locator("main h2").wait_for()
    found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


@pytest.mark.parametrize(("count", "most_bytes"), [(541, 1_500_000), (5000, 6_000_000)])
def test_a_page_is_light(
    browser: Browser,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    count: int,
    most_bytes: int,
) -> None:
    out = tmp_path / "page.html"
    assert write_page(drawn_site(count), out) == count
    assert out.stat().st_size <= most_bytes
    with opened(browser, out) as shown:
        main(shown.page, "Overview")
        seconds = seconds_of_work(shown)
        record_property("seconds", seconds)
        assert seconds <= 1
        for where, heading in (("#nodes", "Nodes"), ("#row=7", "Node paper-7")):
            shown.page.evaluate("where => { location.hash = where; }", where)
            main(shown.page, heading)
            assert shown.elements() <= MOST_ELEMENTS
        assert not shown.errors
