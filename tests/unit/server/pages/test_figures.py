"""Figures for print show the values of the charts, in files that are the same twice."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest

from fedtag.server.pages.chart import Axis, Chart, Panel, Rule, Series, bounded, line_chart
from fedtag.server.pages.figures import COLOURS, COLUMN, PAGE, figure_of, write_figures


def chart(*series: Series, title: str = "Test accuracy", percent: bool = False, at: float = 2) -> Chart:
    rules = [Rule("released", x=(at, at))]
    made = line_chart(title, "", "", series, kind="percent" if percent else "number", rules=rules)
    assert made is not None
    return made


def test_lines_hold_the_values_with_their_gaps() -> None:
    values = [0.1, None, 0.3, 0.4]
    drawn = figure_of([chart(Series("a", [1, 2, 3, 4], values, 1, 2), at=3)])
    (axes,) = drawn.axes
    rule, line = axes.lines
    assert list(rule.get_xdata()) == [3, 3]
    assert list(line.get_xdata()) == [1, 2, 3, 4]
    assert np.array_equal(np.array(line.get_ydata()), np.array(values, float), equal_nan=True)
    assert matplotlib.colors.to_hex(str(line.get_color())) == COLOURS[1]
    assert drawn.get_size_inches()[0] == COLUMN


def test_bands_bars_and_marks_lie_where_they_were_put() -> None:
    band = Series("b", [1, 2], [0.5, 0.6], 0, low=[0.4, 0.3], high=[0.6, 0.9])
    (axes,) = figure_of([chart(band)]).axes
    corners = axes.collections[0].get_paths()[0].vertices
    assert {tuple(map(float, one)) for one in corners} >= {(1, 0.4), (2, 0.3), (1, 0.6), (2, 0.9)}
    layers = [
        Series("p", [1, 2], [1.0, 2.0], 0, drawn="bars", low=[0.0, 0.0], high=[1.0, 2.0]),
        Series("q", [1, 2], [3.0, 1.0], 1, drawn="bars", low=[1.0, 2.0], high=[4.0, 3.0]),
    ]
    (axes,) = figure_of([chart(*layers)]).axes
    assert [(bar.get_y(), bar.get_height()) for bar in axes.patches] == [(0, 1), (0, 2), (1, 3), (2, 1)]
    marks = Series("m", [0.7], [0.0], 0, drawn="marks", left=[0.6], right=[0.9])
    panel = bounded(Panel(Axis("AUC"), Axis(names=("shadow model",)), (marks,)))
    (axes,) = figure_of([Chart("A", "", "", (panel,))]).axes
    ((left, right),) = axes.collections[0].get_segments()
    assert (left[0], right[0]) == pytest.approx((0.6, 0.9))
    assert [one.get_text() for one in axes.get_yticklabels()] == ["shadow model"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first name is on top"


def test_marks_of_100_percent_are_whole() -> None:
    drawn = figure_of([chart(Series("a", [1, 2, 3], [0.91, 0.95, 1.0], 0), percent=True)])
    (axes,) = drawn.axes
    assert axes.get_ylim()[1] == 1.0
    assert not any(line.get_clip_on() for line in axes.lines)


def test_several_charts_stand_below_each_other_with_their_titles() -> None:
    charts = [chart(Series("a", [1, 2], [0.1, 0.2], 0), title=title, percent=True) for title in ("A", "B")]
    drawn = figure_of(charts, PAGE)
    assert [axes.get_title("left") for axes in drawn.axes] == ["A", "B"]
    assert drawn.axes[0].yaxis.get_major_formatter()(0.5) == "50%"


def test_files_are_named_by_titles_and_the_same_twice(tmp_path: Path) -> None:
    hostile = Series("图 مستشفى $\\frac \x07", [1, 2], [0.1, 0.2], 0)
    charts = [
        chart(hostile, Series("b", [1], [0.3], 1)),
        chart(hostile),
        chart(hostile, title="../<b>ROC, $x$"),
    ]
    once, again = (write_figures(charts, tmp_path / name) for name in ("once", "again"))
    assert [path.name for path in once] == [
        *("test-accuracy.png", "test-accuracy.svg", "test-accuracy-2.png", "test-accuracy-2.svg"),
        *("b-roc-x.png", "b-roc-x.svg"),
    ]
    for one, other in zip(once, again, strict=True):
        content = one.read_bytes()
        assert content == other.read_bytes()
        assert content.startswith(b"\x89PNG") if one.suffix == ".png" else b"<svg" in content
        assert one.suffix == ".png" or not re.search(rb"<script|\x07", content)
