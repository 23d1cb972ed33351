"""Reliability diagrams: how often predictions are right, against how confident they are.

After Guo et al., "On Calibration of Modern Neural Networks" (2017), Figure 1: on the diagonal confidence is the
chance of being right, below it the model is too sure of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from fedtag.common.numerics.scores import CALIBRATION_BINS, ReliabilityBin
from fedtag.server.pages.chart import Chart, Key
from fedtag.server.pages.plots import (
    CSS_DASHES,
    DASHES,
    INK,
    SERIES,
    SERIES_COLOURS,
    STYLE,
    WIDTH,
    inline_svg,
)
from fedtag.server.pages.wording import count, percent

HEIGHT = 3.6
EDGES = tuple(edge / CALIBRATION_BINS for edge in range(CALIBRATION_BINS + 1))
SMALLEST_MARK, LARGEST_MARK = 10.0, 240.0
MARKS = "Larger marks: more nodes."
TITLE = "Reliability: accuracy against confidence"


@dataclass(frozen=True)
class Curve:
    """One model's, or one method's, line of a diagram.

    Args:
        bins: lowest confidence first; at least one of them has a node.
        ece: the expected calibration error to name, a fraction; None if there is none to name.
        colour, dash: indices that wrap around.
    """

    name: str
    bins: Sequence[ReliabilityBin]
    ece: float | None
    colour: int
    dash: int = 0

    @property
    def nodes(self) -> int:
        """How many nodes were scored."""
        return sum(one.nodes for one in self.bins)

    @property
    def shares(self) -> list[float]:
        """Each bin's share of the nodes."""
        return [one.nodes / self.nodes for one in self.bins]


def reliability_chart(curves: Sequence[Curve], identity: str, note: str = "") -> Chart | None:
    """The diagram of one or several models; None of none.

    Args:
        curves: in the order of the legend.
        identity: prefix of the ids in the SVG.
        note: what else the caption says, as a sentence.
    """
    if not curves:
        return None
    svg = Markup(reliability_plot(curves, identity))
    note = f"{MARKS} {note}".strip()
    if len(curves) == 1:
        (only,) = curves
        caption = f"Expected calibration error on test nodes: {percent(only.ece)}. {note}"
        return Chart(TITLE, caption, f"{balance(only)} {bin_words(only)}", svg, ())
    keys = tuple(
        Key(
            f"{curve.name} ({percent(curve.ece)})",
            curve.colour % SERIES_COLOURS,
            CSS_DASHES[curve.dash % len(CSS_DASHES)],
        )
        for curve in curves
    )
    caption = f"In brackets: expected calibration error on test nodes. {note}"
    return Chart(TITLE, caption, " ".join(f"{curve.name}: {balance(curve)}" for curve in curves), svg, keys)


def balance(curve: Curve) -> str:
    """Mean confidence and accuracy over all nodes, and their calibration error."""
    confidence, accuracy = (
        sum(one.nodes * (getattr(one, name) or 0.0) for one in curve.bins) / curve.nodes
        for name in ("confidence", "accuracy")
    )
    return (
        f"Mean confidence {percent(confidence)}, accuracy {percent(accuracy)}, expected calibration error "
        f"{percent(curve.ece)}, over {count(curve.nodes)} nodes."
    )


def bin_words(curve: Curve) -> str:
    """Every bin that has nodes, for readers who do not see the plot."""
    said = [
        f"{percent(one.confidence)} confident, {percent(one.accuracy)} right, {count(one.nodes)} nodes"
        for one in curve.bins
        if one.nodes
    ]
    return f"By bin: {'; '.join(said)}."


def reliability_plot(curves: Sequence[Curve], identity: str) -> str:
    """Accuracy against confidence with the diagonal; below it how many nodes each bin has.

    A mark's area grows with its bin's share of the nodes. One model's bins have bars of their number of nodes,
    several models' have outlines of shares.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT))
        figure.subplots_adjust(left=0.125, right=0.965, bottom=0.12, top=0.98, hspace=0.12)
        FigureCanvasSVG(figure)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        upper.plot([0, 1], [0, 1], color=INK, linestyle=DASHES[2], linewidth=1.1)
        for curve in curves:
            draw_curve(upper, curve)
        if len(curves) == 1:
            draw_counts(lower, curves[0])
        else:
            draw_shares(lower, curves)
        upper.set_ylabel("accuracy")
        upper.set_ylim(-0.03, 1.03)
        lower.set_xlim(-0.015, 1.015)
        lower.set_xlabel("confidence")
        lower.yaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
        for axis in (upper.yaxis, lower.xaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        return inline_svg(figure, identity)


def draw_curve(axes: Axes, curve: Curve) -> None:
    """A mark for each bin that has nodes, at its mean confidence, joined by a line."""
    found = [(one, share) for one, share in zip(curve.bins, curve.shares, strict=True) if one.nodes]
    places = [one.confidence or 0.0 for one, _ in found]
    heights = [one.accuracy or 0.0 for one, _ in found]
    colour = SERIES[curve.colour % SERIES_COLOURS]
    axes.plot(places, heights, color=colour, linestyle=DASHES[curve.dash % len(DASHES)], linewidth=1.4)
    areas = [SMALLEST_MARK + (LARGEST_MARK - SMALLEST_MARK) * share for _, share in found]
    axes.scatter(places, heights, s=areas, color=colour, linewidths=0, zorder=3)


def draw_counts(axes: Axes, curve: Curve) -> None:
    """A bar a bin, as high as it has nodes."""
    centres = [(low + high) / 2 for low, high in pairwise(EDGES)]
    heights = [one.nodes for one in curve.bins]
    axes.bar(centres, heights, width=0.88 / CALIBRATION_BINS, color=SERIES[curve.colour % SERIES_COLOURS])
    axes.set_ylabel("nodes")


def draw_shares(axes: Axes, curves: Sequence[Curve]) -> None:
    """An outline a model, as high as the share of its nodes in each bin."""
    for curve in curves:
        axes.stairs(
            curve.shares,
            EDGES,
            color=SERIES[curve.colour % SERIES_COLOURS],
            linestyle=DASHES[curve.dash % len(DASHES)],
            linewidth=1.2,
        )
    axes.set_ylabel("share of nodes")
    axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
