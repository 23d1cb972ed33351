"""Charts for print: PNG and SVG files and figures in notebooks, of the size of a column of a paper.

matplotlib is imported here alone, and this module only by whoever wants such figures.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import figure
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from fedtag.common.wording.visible import visible_line
from fedtag.server.pages.chart import Axis, Chart, Panel, Series, lone_points
from fedtag.server.tracking.durable_files import write_atomically

COLUMN, PAGE = 3.4, 7.0
"""Inches: one of two columns of a page, and both."""
PANEL_HEIGHT, ROW_HEIGHT, MARGIN = 2.3, 0.26, 0.75
DOTS_PER_INCH = 300
FEW = 12
BAND_OPACITY, FAINT_OPACITY = 0.16, 0.35
INK, GRID = "#3d444b", "#dfe2e4"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5589a", "#c98a00", "#3d9bd3", "#4d4d4d", "#8a6d3b")
DASHES: Sequence[Any] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))
MARKERS = "os^vD"
SMALLEST_MARK, LARGEST_MARK = 6.0, 110.0
MOST_ENTRIES = 4
"""So many entries of a legend have room inside a plot."""
FORMATS = ("png", "svg")
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "legend.fontsize": 6.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedtag",
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.formatter.useoffset": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.2,
    "lines.markersize": 3,
}


class Figure(figure.Figure):
    """A figure that a notebook shows, whether pyplot was imported or not."""

    def _repr_png_(self) -> bytes:
        return figure_bytes(self, "png")


def write_figures(charts: Iterable[Chart], folder: Path) -> list[Path]:
    """Write each chart as a PNG and an SVG file that are named by its title; what is there is replaced.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for chart in charts:
        stem = re.sub(r"[^\w]+", "-", visible_line(chart.title).lower()).strip("-")[:80] or "figure"
        taken = {path.stem for path in written}
        name = next(one for one in (stem, *(f"{stem}-{n}" for n in range(2, 999))) if one not in taken)
        written += write_figure([chart], folder / name)
    return written


def write_figure(charts: Sequence[Chart], stem: Path, width: float = COLUMN) -> list[Path]:
    """Write charts below each other as one PNG and one SVG file; equal charts give equal bytes."""
    drawn = figure_of(charts, width)
    paths = [stem.with_name(f"{stem.name}.{suffix}") for suffix in FORMATS]
    for path, suffix in zip(paths, FORMATS, strict=True):
        write_atomically(path, figure_bytes(drawn, suffix))
    return paths


def figure_of(charts: Sequence[Chart], width: float = COLUMN) -> Figure:
    """Charts below each other, with their titles where there are several.

    Args:
        charts: at least one.
        width: in inches.
    """
    panels = [(chart, panel) for chart in charts for panel in chart.panels]
    heights = [panel_height(panel) for _, panel in panels]
    with styled():
        drawn = Figure(figsize=(width, sum(heights)), layout="constrained")
        grid = drawn.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (chart, panel) in zip(grid, panels, strict=True):
            draw(axes, panel)
            first = panel is chart.panels[0]
            if first and len(charts) > 1:
                axes.set_title(visible_line(chart.title), loc="left")
            if first and (entries := chart.legend):
                legend(axes, entries)
    return drawn


def figure_bytes(drawn: figure.Figure, suffix: str) -> bytes:
    """The bytes of a figure as `png` or `svg`, without date or program."""
    buffer = io.BytesIO()
    metadata = {"Software": None} if suffix == "png" else {"Date": None, "Creator": None}
    with styled():
        FigureCanvasAgg(drawn)
        drawn.savefig(
            buffer,
            format=suffix,
            dpi=DOTS_PER_INCH,
            facecolor="white",
            bbox_inches="tight",
            metadata=metadata,
        )
    return buffer.getvalue()


@contextmanager
def styled() -> Iterator[None]:
    """Plots in the style of a paper."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Names may be in scripts that the font lacks; the tables have them in full.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panel_height(panel: Panel) -> float:
    """Inches: a line of text for each name of the axis, or the usual."""
    return MARGIN + ROW_HEIGHT * len(panel.y.names) if panel.y.names else PANEL_HEIGHT * panel.share


def draw(axes: Axes, panel: Panel) -> None:
    """One panel with its axes."""
    for axis, given in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
        set_axis(axes, axis, given)
    for rule in panel.rules:
        xs, ys = (
            [bound if end is None else end for end, bound in zip(pair, (given.low, given.high), strict=True)]
            for pair, given in ((rule.x, panel.x), (rule.y, panel.y))
        )
        axes.plot(np.array(xs, float), np.array(ys, float), color=INK, linestyle=DASHES[2], linewidth=0.8)
    for series in panel.series:
        draw_series(axes, series)
    if "percent" in (panel.x.kind, panel.y.kind) and not panel.y.log:
        # Axes of shares end at 0 and 100%, where marks and lines are drawn whole.
        for one in (*axes.lines, *axes.collections):
            one.set_clip_on(False)


def set_axis(axes: Axes, axis: Any, given: Axis) -> None:
    """Ends, ticks and label of an axis."""
    sideways = axis is axes.xaxis
    if given.log:
        (axes.set_xscale if sideways else axes.set_yscale)("log")
        axis.set_major_locator(FixedLocator((0.001, 0.01, 0.1, 1.0)))
        axis.set_minor_locator(NullLocator())
    elif given.names:
        axis.set_major_locator(FixedLocator(range(len(given.names))))
        axis.set_ticklabels([visible_line(name) for name in given.names])
    else:
        axis.set_major_locator(MaxNLocator(nbins=6, integer=given.kind == "whole", min_n_ticks=2))
    if given.kind == "percent":
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    if given.low is not None and given.high is not None:
        ends = (given.high, given.low) if given.names else (given.low, given.high)
        (axes.set_xlim if sideways else axes.set_ylim)(*ends)
    axis.set_label_text(visible_line(given.label))


def draw_series(axes: Axes, series: Series) -> None:
    """What belongs to one series, in its colour."""
    colour, dash = COLOURS[series.colour % len(COLOURS)], DASHES[series.dash % len(DASHES)]
    x = np.array(series.x, dtype=float)
    y, low, high = (np.array(values, dtype=float) for values in (series.y, series.low, series.high))
    if series.drawn == "bars":
        axes.bar(x, high - low, bottom=low, width=series.width, color=colour)
    elif series.drawn in ("area", "band"):
        axes.fill_between(
            x, low, high, color=colour, alpha=BAND_OPACITY if series.drawn == "band" else 1, linewidth=0
        )
    elif series.drawn == "steps":
        edges = [*(x - series.width / 2), x[-1] + series.width / 2]
        axes.stairs(y, edges, color=colour, linestyle=dash, linewidth=1.0)
    elif series.drawn == "marks":
        draw_marks(axes, series, colour)
    else:
        if len(low):
            axes.fill_between(x, low, high, color=colour, alpha=BAND_OPACITY, linewidth=0)
        marks = list(range(len(x))) if len(x) <= FEW else lone_points(series.y)
        marker = "o" if marks and not len(series.sizes) else ""
        axes.plot(x, y, color=colour, linestyle=dash, marker=marker, markevery=marks or None)
    if len(series.sizes):
        areas = SMALLEST_MARK + (LARGEST_MARK - SMALLEST_MARK) * np.array(series.sizes)
        axes.scatter(x, y, s=areas, color=colour, linewidths=0, zorder=3)


def draw_marks(axes: Axes, series: Series, colour: str) -> None:
    """Marks with their intervals."""
    x, y = np.array(series.x, dtype=float), np.array(series.y, dtype=float)
    marker = MARKERS[series.dash % len(MARKERS)]
    if series.faint:
        axes.plot(x, y, marker, color=colour, alpha=FAINT_OPACITY, markersize=2.5, markeredgewidth=0)
        return
    errors: dict[str, Any] = {
        name: [at - np.array(low, dtype=float), np.array(high, dtype=float) - at]
        for name, at, low, high in (
            ("xerr", x, series.left, series.right),
            ("yerr", y, series.low, series.high),
        )
        if len(low)
    }
    axes.errorbar(x, y, fmt=marker, color=colour, markersize=3.5, capsize=1.5, elinewidth=0.9, **errors)


def legend(axes: Axes, entries: Sequence[Series]) -> None:
    """The names of series: a few inside the plot, many to its right."""
    handles: list[Any] = []
    for one in entries:
        colour, label = COLOURS[one.colour % len(COLOURS)], visible_line(one.key)
        if one.drawn in ("line", "steps"):
            handles += axes.plot([], [], color=colour, linestyle=DASHES[one.dash % len(DASHES)], label=label)
        elif one.drawn == "marks":
            handles += axes.plot([], [], MARKERS[one.dash % len(MARKERS)], color=colour, label=label)
        else:
            alpha = BAND_OPACITY if one.drawn == "band" else 1.0
            handles.append(axes.fill_between([], [], color=colour, alpha=alpha, label=label))
    beside = (
        {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
        if len(entries) > MOST_ENTRIES
        else {"loc": "best"}
    )
    axes.legend(handles=handles, frameon=False, **beside)
