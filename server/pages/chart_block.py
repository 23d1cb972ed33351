"""The data of a page's charts, as one block of JSON that its script reads.

A page stays small whatever the run: long series are thinned, which the script says below the chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from fedtag.common.wording.visible import visible_line
from fedtag.server.pages.chart import Axis, Chart, Panel, Series, all_series

MOST_VALUES = 40_000
"""In all series of a page; a value takes about eight bytes."""
MOST_POINTS, FEWEST_POINTS = 400, 40
DIGITS = 5
BESIDE = ("low", "high", "left", "right", "sizes")
"""What a series may have of each of its points."""


class ChartBlock:
    """The charts of a page in the order in which they are placed, and the records of its runs' clients."""

    def __init__(self, runs: Sequence[Mapping[str, Any]] = ()) -> None:
        self._charts: list[Chart] = []
        self._runs = runs

    def place(self, chart: Chart) -> int:
        """The number by which the page's element names the chart."""
        self._charts.append(chart)
        return len(self._charts) - 1

    def json(self) -> Markup:
        """All that was placed; no text in it can end the element around it."""
        count = sum(1 for _ in all_series(self._charts))
        most = min(MOST_POINTS, max(FEWEST_POINTS, MOST_VALUES // max(1, count)))
        content = {"charts": [chart_object(chart, most) for chart in self._charts], "runs": self._runs}
        return htmlsafe_json_dumps(content, separators=(",", ":"), ensure_ascii=False)


def chart_object(chart: Chart, most: int = MOST_POINTS) -> dict[str, Any]:
    """A chart for the script, with at most about so many points a series."""
    thinned = [thin(panel, most) for panel in chart.panels]
    every = max(every for _, every in thinned)
    found: dict[str, Any] = {"title": chart.title, "panels": [panel_object(panel) for panel, _ in thinned]}
    if every > 1:
        found["thinned"] = (
            f"1 of {every} values along the axis is drawn, beside the first, the last and every series' extremes."
        )
    if chart.column:
        found |= {"column": chart.column, "run": chart.run}
    return found


def thin(panel: Panel, most: int) -> tuple[Panel, int]:
    """A panel whose lines have so many places, about, and which share of them was kept.

    Kept are every k-th, the first and the last, and of each series where it is lowest and highest.
    """
    places = sorted({x for one in panel.series for x in one.x})
    if len(places) <= most or any(one.drawn == "marks" for one in panel.series):
        return panel, 1
    every = -(-len(places) // most)
    kept = {*places[::every], places[-1]}
    for one in panel.series:
        values = [(value, x) for value, x in zip(one.y, one.x, strict=True) if value is not None]
        kept |= {min(values)[1], max(values)[1]} if values else set()
    return replace(panel, series=tuple(_only(one, kept) for one in panel.series)), every


def _only(series: Series, kept: set[float]) -> Series:
    rows = [row for row, x in enumerate(series.x) if x in kept]
    parts: dict[str, Any] = {name: getattr(series, name) for name in ("x", "y", *BESIDE)}
    kept_parts: dict[str, Any] = {name: [one[row] for row in rows] for name, one in parts.items() if len(one)}
    return replace(series, **kept_parts)


def panel_object(panel: Panel) -> dict[str, Any]:
    """A panel for the script; series that have the same places share them."""
    shared: list[list[float | None]] = []
    series = []
    for one in panel.series:
        x = numbers(one.x)
        if x not in shared:
            shared.append(x)
        found: dict[str, Any] = {"name": visible_line(one.name), "key": visible_line(one.key)}
        found |= {"x": shared.index(x), "y": numbers(one.y), "colour": one.colour % 8, "dash": one.dash % 4}
        found |= {"drawn": one.drawn, "width": one.width, "faint": one.faint}
        for name in BESIDE:
            if len(values := getattr(one, name)):
                found[name] = numbers(values)
        series.append(found)
    rules = [{"name": rule.name, "x": rule.x, "y": rule.y} for rule in panel.rules]
    axes = {"x": axis_object(panel.x), "y": axis_object(panel.y)}
    return {**axes, "places": shared, "series": series, "rules": rules, "share": panel.share}


def axis_object(axis: Axis) -> dict[str, Any]:
    """An axis for the script."""
    found: dict[str, Any] = {"label": visible_line(axis.label), "kind": axis.kind, "log": axis.log}
    found |= {"low": axis.low, "high": axis.high}
    return found | ({"names": [visible_line(name) for name in axis.names]} if axis.names else {})


def numbers(values: Sequence[float | None]) -> list[float | None]:
    """Numbers of five digits, which is more than a chart shows; what is no number is a gap."""
    return [short(value) for value in values]


def short(value: float | None) -> float | None:
    """A number of five digits, whole where it is whole."""
    if value is None or not isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(value) if value == int(value) and abs(value) < 1e15 else rounded
