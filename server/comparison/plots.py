"""The plots of a comparison: a point a row with its seeds, or lines along a setting; scores over rounds and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtag.common.wording.visible import visible_line
from fedtag.server.comparison.convergence import Point
from fedtag.server.comparison.results import Comparison, Line, lines, tested
from fedtag.server.pages import plots
from fedtag.server.pages.figures import PAGE, PAPER, Figure, Palette, percent_tick, png, styled
from fedtag.server.pages.plots import SERIES_COLOURS, inline_svg

ROW_HEIGHT, MARGIN, CURVE_HEIGHT = 0.34, 0.95, 3.4
MARKERS = "osD^v"


def score_png(comparison: Comparison) -> bytes:
    """Test accuracy of every row, one panel a data set, as a PNG; equal comparisons give equal bytes."""
    with styled(PAPER):
        return png(drawn(comparison, comparison.data, PAPER))


def convergence_png(comparison: Comparison) -> bytes:
    """Test accuracy over rounds, one panel a data set, as a PNG; equal comparisons give equal bytes."""
    with styled(PAPER):
        return png(drawn_curves(comparison, PAPER))


def time_png(comparison: Comparison) -> bytes:
    """Test accuracy against the time of a run, one panel a data set, as a PNG."""
    with styled(PAPER):
        return png(drawn_times(comparison, PAPER))


def score_svg(comparison: Comparison, data: str, identity: str) -> str:
    """The panel of one data set as an `<svg>` element in the page's colours."""
    with styled(PAGE):
        return inline_svg(drawn(comparison, [data], PAGE), identity)


def drawn(comparison: Comparison, data: Sequence[str], palette: Palette) -> Figure:
    """A figure with a panel for each of the data sets, below each other."""
    along = bool(comparison.axis)
    height = CURVE_HEIGHT if along else MARGIN + ROW_HEIGHT * len(comparison.rows)
    figure = Figure(figsize=(palette.width, height * len(data)), layout="constrained")
    panels = figure.subplots(len(data), 1, squeeze=False)[:, 0]
    every = list(lines(comparison))
    for axes, name in zip(panels, data, strict=True):
        own = [line for line in every if line.data == name]
        if along:
            draw_along(axes, comparison, own, palette)
        else:
            draw_points(axes, comparison, own, palette)
        if len(data) > 1:
            axes.set_title(visible_line(name), loc="left", fontsize=9.5)
    return figure


def draw_points(axes: Axes, comparison: Comparison, own: Sequence[Line], palette: Palette) -> None:
    """A point and its standard deviation a row, the runs of single seeds faint beside it.

    Points and not bars, because the axis does not start at zero.
    """
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    for place, line in enumerate(own):
        if line.test is None:
            continue
        colour = palette.of(1 if line.row == comparison.baseline else 0)
        single = list(tested(comparison.of(line.row, line.data)).values())
        axes.plot(
            single, [place] * len(single), "o", color=colour, alpha=0.3, markersize=4, markeredgewidth=0
        )
        axes.errorbar(
            line.test.mean,
            place,
            xerr=line.test.std or 0.0,
            fmt="o",
            color=colour,
            markersize=5.5,
            capsize=2.5,
            elinewidth=1.4,
        )
    axes.set_yticks(range(len(own)), [visible_line(line.row) for line in own])
    axes.set_ylim(len(own) - 0.4, -0.6)
    axes.set_xlabel("test accuracy: mean ± standard deviation, and each seed")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.xaxis.set_major_formatter(FuncFormatter(percent_tick))
    axes.margins(x=0.06)


def draw_along(axes: Axes, comparison: Comparison, own: Sequence[Line], palette: Palette) -> None:
    """One line a series along the axis; rows without a place on it are dashed across."""
    rows = {row.name: row for row in comparison.rows}
    placed = [(rows[line.row], line.test) for line in own if line.test is not None]
    series = list(dict.fromkeys(row.series for row, _ in placed if row.place is not None))
    colour = 0
    for name in series:
        members = sorted(
            (row.place, test.mean, test.std or 0.0)
            for row, test in placed
            if row.series == name and row.place is not None
        )
        places, means, deviations = zip(*members, strict=True)
        axes.errorbar(
            places,
            means,
            yerr=deviations,
            fmt="o-",
            color=palette.of(colour),
            capsize=2.5,
            elinewidth=1.2,
            label=visible_line(name or comparison.axis),
        )
        colour += 1
    for row, test in placed:
        if row.place is None:
            axes.axhline(
                test.mean, color=palette.of(colour), linestyle=(0, (5, 2)), label=visible_line(row.name)
            )
            colour += 1
    axes.set_xticks(sorted({row.place for row, _ in placed if row.place is not None}))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel(comparison.axis)
    axes.set_ylabel("test accuracy")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
    axes.margins(x=0.04, y=0.1)
    if placed:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)


def drawn_curves(comparison: Comparison, palette: Palette) -> Figure:
    """A figure with the curves of each data set, below each other."""
    data = comparison.data
    figure = Figure(figsize=(palette.width, CURVE_HEIGHT * len(data)), layout="constrained")
    panels = figure.subplots(len(data), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, data, strict=True):
        curves = curve_lines({row.name: comparison.curve(row.name, name) for row in comparison.rows})
        plots.draw_lines(axes, list(curves.values()), palette.series, [visible_line(row) for row in curves])
        axes.set_xlabel("round")
        axes.set_ylabel("test accuracy: mean ± standard deviation")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.margins(x=0.02, y=0.06)
        if curves:
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        if len(data) > 1:
            axes.set_title(visible_line(name), loc="left", fontsize=9.5)
    return figure


def drawn_times(comparison: Comparison, palette: Palette) -> Figure:
    """A figure with a point a row, its time to the right and its accuracy upwards, a panel for each data set."""
    data = comparison.data
    figure = Figure(figsize=(palette.width, CURVE_HEIGHT * len(data)), layout="constrained")
    panels = figure.subplots(len(data), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, data, strict=True):
        own = [line for line in lines(comparison) if line.data == name]
        for place, line in enumerate(own):
            if line.test is None or line.seconds is None:
                continue
            axes.errorbar(
                line.seconds.mean,
                line.test.mean,
                xerr=line.seconds.std or 0.0,
                yerr=line.test.std or 0.0,
                fmt=MARKERS[place // len(palette.series) % len(MARKERS)],
                color=palette.of(place),
                capsize=2.5,
                elinewidth=1.0,
                label=visible_line(line.row),
            )
        axes.set_xlabel("seconds of a run: mean ± standard deviation")
        axes.set_ylabel("test accuracy: mean ± standard deviation")
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.margins(x=0.04, y=0.08)
        if axes.containers:
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
        if len(data) > 1:
            axes.set_title(visible_line(name), loc="left", fontsize=9.5)
    return figure


def curve_lines(curves: Mapping[str, Sequence[Point]]) -> dict[str, plots.Line]:
    """A line with its band for each row that has a curve, in colours and dashes by its place."""
    return {
        name: plots.Line(
            [point.round for point in points],
            [point.test.mean for point in points],
            place % SERIES_COLOURS,
            place // SERIES_COLOURS,
            [point.test.std or 0.0 for point in points],
        )
        for place, (name, points) in enumerate(curves.items())
        if points
    }
