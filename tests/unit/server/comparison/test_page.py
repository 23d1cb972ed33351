"""Plots and page of a comparison."""

from __future__ import annotations

import re
import statistics
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from fedtag.server.comparison.page import render_comparison
from fedtag.server.comparison.plots import convergence_png, curve_lines, score_png, score_svg, time_png
from fedtag.server.comparison.results import Comparison, Row

Compared = Callable[..., Comparison]
AXIS = "dance.one-hop-budget"
BUDGETS = [Row(f"budget {n}", {AXIS: n}, float(n), "dance") for n in (1, 3, 9)]


class Texts(HTMLParser):
    """The texts of a page, and whether every tag that opens is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def points(compared: Compared) -> Comparison:
    return compared(
        {"FedAvg": [0.80, 0.82], "<b>$x$</b>": [0.85, 0.86], "lost": [None, None]}, data=["cora", "pub&med"]
    )


@pytest.fixture
def along(compared: Compared) -> Comparison:
    scores = {"FedAvg": [0.8, 0.8], "budget 1": [0.6, 0.7], "budget 3": [0.7, 0.8], "budget 9": [0.9, 0.8]}
    return compared(scores, rows=[Row("FedAvg"), *BUDGETS], axis=AXIS)


@pytest.mark.parametrize("kind", ["points", "along"])
def test_png_is_the_same_for_the_same_numbers(kind: str, request: pytest.FixtureRequest) -> None:
    comparison = request.getfixturevalue(kind)
    for drawn in (score_png, convergence_png, time_png):
        first = drawn(comparison)
        assert first.startswith(b"\x89PNG")
        assert first == drawn(comparison)


@pytest.mark.parametrize("drawn", [score_png, convergence_png, time_png])
def test_png_shows_the_numbers(compared: Compared, drawn: Callable[[Comparison], bytes]) -> None:
    one, other = (drawn(compared({"FedAvg": [0.80, 0.82], "a": [value, 0.9]})) for value in (0.5, 0.6))
    assert one != other


def corners(svg: str, colour: str) -> list[tuple[float, float]]:
    """The points of the longest line of a colour."""
    paths = re.findall(rf'<path d="([^"]*)"[^>]*style="fill: none;[^"]*stroke: var\(--{colour}\)', svg)
    found = [re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", path) for path in paths]
    return [(float(x), float(y)) for x, y in max(found, key=len)]


def test_line_along_the_axis_is_an_affine_image_of_the_means(along: Comparison) -> None:
    svg = score_svg(along, "cora", "p")
    found = np.array(corners(svg, "series-0"))
    assert len(found) == 3
    for column, values in ((0, [1.0, 3.0, 9.0]), (1, [0.65, 0.75, 0.85])):
        slope, offset = np.polyfit(values, found[:, column], 1)
        assert np.allclose(slope * np.array(values) + offset, found[:, column], atol=1e-3)
        assert slope > 0 if column == 0 else slope < 0
    texts = [text.text for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("text")]
    assert {"dance", "FedAvg", AXIS, "1", "3", "9"} <= set(texts)


def test_points_are_named_and_nothing_is_a_formula(points: Comparison) -> None:
    svg = score_svg(points, "cora", "p")
    texts = [text.text for text in ElementTree.fromstring(svg).iter() if text.tag.endswith("text")]
    assert {"FedAvg", "<b>$x$</b>", "lost"} <= set(texts)


def test_names_that_the_font_lacks_do_no_harm(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.8, 0.9], "图 مستشفى\x07": [0.7, 0.8]})
    assert score_png(comparison)
    assert convergence_png(comparison)
    assert time_png(comparison)
    assert "\x07" not in render_comparison(comparison)


def test_lines_over_rounds_keep_their_colour_where_others_are_missing(compared: Compared) -> None:
    scores = {"lost": [None, None], **{f"row {n}": [0.8, 0.9] for n in range(9)}}
    comparison = compared(scores, baseline="row 0")
    drawn = curve_lines({row: comparison.curve(row, "cora") for row in scores})
    assert [(line.colour, line.dash) for line in drawn.values()] == [
        *((n, 0) for n in range(1, 8)),
        (0, 1),
        (1, 1),
    ]
    line = drawn["row 0"]
    assert line.rounds == [1, 2, 3, 4]
    assert line.values == pytest.approx([0.82, 0.83, 0.84, 0.85])
    assert line.deviations == pytest.approx([statistics.stdev([0.8, 0.9])] * 4)


def test_page_is_complete_and_escapes_names(points: Comparison) -> None:
    page = render_comparison(points)
    assert page == render_comparison(points)
    read = Texts(page)
    assert read.open == []
    text = " ".join(read.texts)
    for part in (
        "<b>$x$</b>",
        "pub&med",
        "0 of 2",
        "81.00 ± 1.41",
        "not finished",
        "Methods | all",
        "2.00 MB",
        "Rounds to it",
        "band of one standard deviation",
        "an interval needs at least three seeds",
    ):
        assert part in text
    assert 'href="runs/FedAvg/cora/seed-0/report.html"' in page
    assert "<b>" not in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_reliability_is_pooled_over_the_nodes_of_all_seeds(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.6, 0.8], "lost": [None, None]})
    first, *filled = comparison.reliability("FedAvg", "cora")
    assert first.nodes == 0
    assert {one.nodes for one in filled} == {10 + 30}
    assert [one.accuracy for one in filled] == pytest.approx([(10 * 0.6 + 30 * 0.8) / 40] * 14)
    assert [one.confidence for one in filled] == pytest.approx([(k + 0.5) / 15 for k in range(1, 15)])
    assert comparison.reliability("lost", "cora") == ()


def test_rows_keep_their_colour_in_the_reliability_diagram(compared: Compared) -> None:
    scores = {"lost": [None, None], **{f"row {n}": [0.8, 0.9] for n in range(9)}}
    comparison = compared(scores, baseline="row 0")
    page = render_comparison(comparison)
    legend = page[page.index("Reliability: accuracy against confidence <span") :].split("</ul>")[0]
    found = re.findall(r"series-(\d)\)\".*?<bdi>([^<]*)</bdi>", legend, re.DOTALL)
    assert found == [(str((n + 1) % 8), f"row {n} (5.00%)") for n in range(9)]
    assert "Bins hold the nodes of all seeds, the errors are means over seeds." in page


def test_runs_of_earlier_versions_have_no_reliability_diagram(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.6, 0.8]})
    results = {
        key: replace(result, summary=replace(result.summary, test_reliability=None))
        for key, result in comparison.results.items()
        if result.summary is not None
    }
    assert "Reliability" in render_comparison(comparison)
    assert "Reliability" not in render_comparison(replace(comparison, results=results))
