"""Plots as inline SVG that follows the page's fonts and its light or dark colours.

No text of a run enters a plot: names stand in the page's own legends, where the template escapes them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

SERIES_COLOURS = 8
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))
CSS_DASHES = ("", "6 3", "2 2.5", "7 3 2 3")
WIDTH, HEIGHT = 5.4, 2.9
BAND_OPACITY = 0.15

# Stand-ins that are replaced by the page's CSS variables once matplotlib has written the SVG.
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#0102{16 + index:02x}" for index in range(SERIES_COLOURS))
VARIABLES = {INK: "var(--muted)", GRID: "var(--grid)"} | {
    colour: f"var(--series-{index})" for index, colour in enumerate(SERIES)
}
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "fedtag",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.markersize": 4,
    "path.simplify": True,
}


@dataclass(frozen=True)
class Line:
    """One line of a plot; None in `values` is a gap.

    `colour` and `dash` are indices that wrap around. `deviations`, one a value if there are any, are half the
    heights of a band around the line.
    """

    rounds: Sequence[int]
    values: Sequence[float | None]
    colour: int
    dash: int = 0
    deviations: Sequence[float] = ()

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)


@dataclass(frozen=True)
class Band:
    """What lies between two values at each round; `colour` is an index that wraps around."""

    rounds: Sequence[int]
    low: Sequence[float]
    high: Sequence[float]
    colour: int


def line_plot(
    lines: Sequence[Line],
    y_label: str,
    identity: str,
    *,
    x_label: str = "round",
    percent: bool = False,
    from_zero: bool = False,
    whole: bool = False,
    bands: Sequence[Band] = (),
) -> str:
    """Values over rounds, or over another count.

    Args:
        lines: at least one that is not empty.
        y_label, x_label: our own words.
        identity: prefix of the ids in the SVG, unique in the page.
        percent: values are fractions, the axis shows percentages.
        from_zero: the axis starts at 0.
        whole: values are whole numbers, and so are the ticks.
        bands: behind the lines; no higher than they are.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_axes(y_label, x_label)
        for band in bands:
            colour = SERIES[band.colour % SERIES_COLOURS]
            axes.fill_between(band.rounds, band.low, band.high, color=colour, alpha=BAND_OPACITY, linewidth=0)
        draw_lines(axes, lines, SERIES)
        if from_zero:
            top = max(value for line in lines for value in line.values if value is not None)
            axes.set_ylim(0.0, 1.08 * top if top > 0 else 1.0)
        if whole:
            axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, min_n_ticks=1))
        if percent:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
        return inline_svg(figure, identity)


def draw_lines(
    axes: Axes, lines: Sequence[Line], colours: Sequence[str], names: Sequence[str] | None = None
) -> None:
    """Draw lines, with markers where points are few or stand alone; `names` are for a legend."""
    for line, name in zip(lines, names or [""] * len(lines), strict=True):
        values = [float("nan") if value is None else value for value in line.values]
        few = len(line.rounds) <= 12 or sum(value is not None for value in line.values) < 2
        marks = list(range(len(values))) if few else lone_points(line.values)
        colour = colours[line.colour % len(colours)]
        if line.deviations:
            low, high = (
                [value + sign * deviation for value, deviation in zip(values, line.deviations, strict=True)]
                for sign in (-1, 1)
            )
            axes.fill_between(line.rounds, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0)
        axes.plot(
            line.rounds,
            values,
            color=colour,
            linestyle=DASHES[line.dash % len(DASHES)],
            marker="o" if marks else "",
            markevery=marks or None,
            label=name,
        )


def lone_points(values: Sequence[float | None]) -> list[int]:
    """Where a value has a gap on both sides, so that no line would show it."""
    framed = [None, *values, None]
    return [
        place
        for place, value in enumerate(values)
        if value is not None and framed[place] is None and framed[place + 2] is None
    ]


def stacked_plot(
    rounds: Sequence[int], layers: Sequence[Sequence[float]], y_label: str, identity: str
) -> str:
    """Layers on top of each other over rounds, the first at the bottom; bars where rounds are few."""
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_axes(y_label)
        base = [0.0] * len(rounds)
        for index, layer in enumerate(layers):
            top = [low + high for low, high in zip(base, layer, strict=True)]
            colour = SERIES[index % SERIES_COLOURS]
            if len(rounds) > 60:
                axes.fill_between(rounds, base, top, color=colour, linewidth=0)
            else:
                axes.bar(rounds, layer, bottom=base, color=colour, width=0.78)
            base = top
        if len(rounds) == 1:
            axes.set_xlim(rounds[0] - 2, rounds[0] + 2)
            axes.set_xticks(list(rounds))
        return inline_svg(figure, identity)


def blank_axes(y_label: str, x_label: str = "round") -> tuple[Figure, Axes]:
    """A figure with one plot over whole numbers."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    figure.subplots_adjust(left=0.115, right=0.985, bottom=0.15, top=0.97)
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    axes.margins(x=0.02, y=0.08)
    return figure, axes


def inline_svg(figure: Figure, identity: str) -> str:
    """The figure as an `<svg>` element for a page: no prologue, no metadata, no fixed size, unique ids."""
    buffer = io.StringIO()
    figure.savefig(
        buffer,
        format="svg",
        transparent=True,
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"| version="[^"]*"', "", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="', f'id="{identity}-', text)
    text = re.sub(r'href="#', f'href="#{identity}-', text)
    text = text.replace("url(#", f"url(#{identity}-")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px; font-family: inherit", text)
    for stand_in, variable in VARIABLES.items():
        text = text.replace(stand_in, variable)
    return text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1).strip()
