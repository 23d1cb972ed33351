"""Plots and page of a comparison."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from fedtag.server.comparison.charts import rounds_chart, score_chart, time_chart
from fedtag.server.comparison.page import render_comparison
from fedtag.server.comparison.results import Comparison, Row
from fedtag.server.pages.chart import Chart
from fedtag.server.pages.figures import figure_bytes, figure_of

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
        self.texts.append(data.replace("\N{NO-BREAK SPACE}", " "))


@pytest.fixture
def points(compared: Compared) -> Comparison:
    return compared(
        {"FedAvg": [0.80, 0.82], "<b>$x$</b>": [0.85, 0.86], "lost": [None, None]}, data=["cora", "pub&med"]
    )


@pytest.fixture
def along(compared: Compared) -> Comparison:
    scores = {"FedAvg": [0.8, 0.8], "budget 1": [0.6, 0.7], "budget 3": [0.7, 0.8], "budget 9": [0.9, 0.8]}
    return compared(scores, rows=[Row("FedAvg"), *BUDGETS], axis=AXIS)


CHARTS = (score_chart, rounds_chart, time_chart)


def test_line_along_the_axis_goes_through_the_means(along: Comparison) -> None:
    panel = score_chart(along, "cora").panels[0]
    dial, across = panel.series
    assert (dial.name, list(dial.x), list(dial.y)) == ("dance", [1, 3, 9], pytest.approx([0.65, 0.75, 0.85]))
    deviation = statistics.stdev([0.6, 0.7])
    assert (dial.low[0], dial.high[0]) == pytest.approx((0.65 - deviation, 0.65 + deviation))
    assert (across.name, list(across.x), list(across.y)) == ("FedAvg", [1, 9], [0.8, 0.8])
    assert panel.x.label == AXIS


def test_rows_are_named_and_show_their_seeds(points: Comparison) -> None:
    panel = score_chart(points, "cora").panels[0]
    assert panel.y.names == ("FedAvg", "<b>$x$</b>", "lost")
    seeds, mean = [one for one in panel.series if one.name.startswith("FedAvg")]
    assert (seeds.faint, list(seeds.x), list(seeds.y)) == (True, [0.80, 0.82], [0, 0])
    deviation = statistics.stdev([0.80, 0.82])
    assert list(mean.x) == pytest.approx([0.81])
    assert [*mean.left, *mean.right] == pytest.approx([0.81 - deviation, 0.81 + deviation])
    assert not [one for one in panel.series if one.name.startswith("lost")]


def test_time_stands_beside_the_score(points: Comparison) -> None:
    chart = time_chart(points, "pub&med")
    assert chart is not None
    assert chart.title.endswith(", pub&med"), "there are several data sets"
    assert [(one.name, list(one.x)) for one in chart.panels[0].series] == [
        ("FedAvg", [12.0]),
        ("<b>$x$</b>", [12.0]),
    ]


def test_no_band_goes_beyond_what_there_can_be(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.75, 1.0], "b": [0.06, 0.3], "c": [0.5, 0.6]})
    charts = [chart(comparison, "cora") for chart in (score_chart, rounds_chart, time_chart)]
    for panel in (panel for chart in charts if chart for panel in chart.panels):
        for axis, names in ((panel.x, ("x", "left", "right")), (panel.y, ("y", "low", "high"))):
            if axis.kind != "percent":
                continue
            ends = [
                axis.low,
                axis.high,
                *(end for one in panel.series for name in names for end in getattr(one, name)),
            ]
            assert min(ends) >= 0
            assert max(ends) <= 1
    across = comparison.results["FedAvg", "cora", 0].summary
    assert across is not None
    slow = replace(comparison.results["FedAvg", "cora", 0], summary=replace(across, seconds=900.0))
    chart = time_chart(
        replace(comparison, results={**comparison.results, ("FedAvg", "cora", 0): slow}), "cora"
    )
    assert chart is not None
    assert min(left for one in chart.panels[0].series for left in one.left) == 0, (
        "no run takes less than no time"
    )


@pytest.mark.parametrize("chart", CHARTS)
def test_names_that_the_font_lacks_do_no_harm(compared: Compared, chart: Callable[..., Chart]) -> None:
    comparison = compared({"FedAvg": [0.8, 0.9], "图 مستشفى\x07": [0.7, 0.8]})
    first, again = (figure_bytes(figure_of([chart(comparison, "cora")]), "png") for _ in range(2))
    assert first == again
    assert first.startswith(b"\x89PNG")
    assert "\x07" not in render_comparison(comparison)


def test_lines_over_rounds_keep_their_colour_where_others_are_missing(compared: Compared) -> None:
    scores = {"lost": [None, None], **{f"row {n}": [0.8, 0.9] for n in range(9)}}
    chart = rounds_chart(compared(scores, baseline="row 0"), "cora")
    assert chart is not None
    series = chart.panels[0].series
    assert [(one.colour, one.dash) for one in series] == [*((n, 0) for n in range(1, 8)), (0, 1), (1, 1)]
    line = series[0]
    assert list(line.x) == [1, 2, 3, 4]
    assert list(line.y) == pytest.approx([0.82, 0.83, 0.84, 0.85])
    deviation = statistics.stdev([0.8, 0.9])
    assert list(line.low) == pytest.approx([value - deviation for value in (0.82, 0.83, 0.84, 0.85)])


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
        "against the time of a run",
        "an interval needs at least three seeds",
    ):
        assert part in text
    assert 'href="runs/FedAvg/cora/seed-0/report.html"' in page
    assert "<b>" not in page


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
