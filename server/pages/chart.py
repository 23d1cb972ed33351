"""Charts as data: what a browser draws in a page, and what is drawn for print.

Names may come from clients: whoever draws them writes text, never markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

SERIES_COLOURS = 8
FILLED = ("bars", "area", "band")
Values = Sequence[float | None]
Kind = Literal["number", "whole", "percent"]
Drawn = Literal["line", "marks", "bars", "area", "band", "steps"]


@dataclass(frozen=True)
class Axis:
    """One axis.

    Args:
        label: our own words; may be empty.
        kind: how its numbers are written; `percent` are shares, which lie in [0, 1].
        low, high: its ends; what is drawn decides where None.
        log: logarithmic, by decades.
        names: of the places 0, 1, … from the top, in place of numbers.
    """

    label: str = ""
    kind: Kind = "number"
    low: float | None = None
    high: float | None = None
    log: bool = False
    names: tuple[str, ...] = ()


ROUNDS = Axis("round", "whole")


@dataclass(frozen=True)
class Series:
    """Points of one colour; None in `y` is a gap, and so is an x that only other series have.

    Args:
        name: of the points.
        x, y: their places.
        colour, dash: indices that wrap around.
        drawn: joined by a `line`, as `marks`, as `bars` or an `area` from `low` to `high`, as a `band` between these
            two through which others are seen, or as `steps`.
        low, high: an interval around each y, or the ends of a bar; none if empty.
        left, right: an interval around each x; none if empty.
        sizes: area of each mark, a share of the largest one.
        width: of a bar or a step, in units of x.
        legend: the entry of the legend to which it belongs; its name if empty.
        faint: marks behind others, which have the legend.
    """

    name: str
    x: Sequence[float]
    y: Values
    colour: int
    dash: int = 0
    drawn: Drawn = "line"
    low: Values = ()
    high: Values = ()
    left: Sequence[float] = ()
    right: Sequence[float] = ()
    sizes: Sequence[float] = ()
    width: float = 1.0
    legend: str = ""
    faint: bool = False

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.y)

    @property
    def key(self) -> str:
        """Its entry of the legend."""
        return self.legend or self.name


@dataclass(frozen=True)
class Rule:
    """A thin line from one corner to another; None is an end of the axis."""

    name: str
    x: tuple[float | None, float | None] = (None, None)
    y: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Panel:
    """Series on two axes; `share` is its part of the height of its chart."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    rules: tuple[Rule, ...] = ()
    share: float = 1.0


@dataclass(frozen=True)
class Chart:
    """One figure.

    Args:
        title, note: the caption.
        alt: says in words what is to be seen.
        panels: below each other, on one axis to the right.
        column: of the page's record of clients, of which a picked client's line is drawn beside the others.
        run: whose record that is.
    """

    title: str
    note: str
    alt: str
    panels: tuple[Panel, ...]
    column: str = ""
    run: int = 0

    @property
    def legend(self) -> tuple[Series, ...]:
        """The first series of each entry; nothing where there is one entry alone."""
        found: dict[str, Series] = {}
        for panel in self.panels:
            for series in panel.series:
                if not series.faint:
                    found.setdefault(series.key, series)
        return tuple(found.values()) if len(found) > 1 else ()


def line_chart(
    title: str,
    note: str,
    alt: str,
    series: Iterable[Series],
    *,
    y_label: str = "",
    kind: Kind = "number",
    from_zero: bool = False,
    x: Axis = ROUNDS,
    rules: Sequence[Rule] = (),
    column: str = "",
    run: int = 0,
) -> Chart | None:
    """A chart of the series that have values, None where none has."""
    drawn = tuple(one for one in series if not one.is_empty)
    if not drawn:
        return None
    y = Axis(y_label, kind, low=0.0 if from_zero else None)
    return Chart(title, note, alt, (bounded(Panel(x, y, drawn, tuple(rules))),), column, run)


def bounded(panel: Panel) -> Panel:
    """The panel with ends for both axes that leave room around everything."""
    xs = [value for one in panel.series for values in (one.x, one.left, one.right) for value in values]
    wide = [one.width / 2 for one in panel.series if one.drawn in ("bars", "steps")]
    ys = [
        value
        for one in panel.series
        for values in ((one.y,) if one.drawn not in FILLED else ()) + (one.low, one.high)
        for value in values
        if value is not None
    ]
    for rule in panel.rules:
        xs += [value for value in rule.x if value is not None]
        ys += [value for value in rule.y if value is not None]
    x, y = _ended(panel.x, xs, 0.02, max(wide, default=0.0)), _ended(panel.y, ys, 0.08, 0.0)
    return replace(panel, x=x, y=y)


def _ended(axis: Axis, values: Sequence[float], margin: float, beyond: float) -> Axis:
    """The axis from below its lowest value to above its highest."""
    if axis.names:
        return replace(axis, low=-0.6, high=len(axis.names) - 0.4)
    low = min(values, default=0.0) - beyond if axis.low is None else axis.low
    high = max(values, default=1.0) + beyond if axis.high is None else axis.high
    room = margin * (high - low) or (1.0 if axis.kind == "whole" else abs(high) * margin or 1.0)
    least, most = (0.0, 1.0) if axis.kind == "percent" else (-inf, inf)
    return replace(
        axis,
        low=max(least, low - room) if axis.low is None else low,
        high=min(most, high + room) if axis.high is None else high,
    )


def lone_points(values: Values) -> list[int]:
    """Where a value has a gap on both sides, so that no line would show it."""
    framed = [None, *values, None]
    return [
        place
        for place, value in enumerate(values)
        if value is not None and framed[place] is None and framed[place + 2] is None
    ]


def all_series(charts: Iterable[Chart]) -> Iterator[Series]:
    """Every series of some charts."""
    return (series for chart in charts for panel in chart.panels for series in panel.series)
