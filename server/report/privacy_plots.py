"""Plots of attacks: areas with their intervals, and ROC curves whose axes are logarithmic.

On such axes the few non-members that matter most for privacy have half of the plot (Carlini et al., 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fedtag.server.pages.plots import DASHES, INK, SERIES, SERIES_COLOURS, STYLE, blank_axes, inline_svg

LEAST = 1e-3
TICKS = (0.001, 0.01, 0.1, 1.0)


@dataclass(frozen=True)
class AreaBar:
    """One attack's area with its interval; `attack` is one of our own words, `colour` an index that wraps around."""

    attack: str
    auc: float
    low: float
    high: float
    colour: int


@dataclass(frozen=True)
class RocCurve:
    """True positive rates at the rates of a plot; `style` is an index of colour and dash that wraps around."""

    rates: Sequence[float]
    style: int


def area_plot(bars: Sequence[AreaBar], identity: str) -> str:
    """A mark an attack, the first on top, with its interval as a line.

    Args:
        bars: at least one.
        identity: prefix of the ids in the SVG.
    """
    with matplotlib.rc_context(STYLE | {"axes.grid.axis": "x"}):
        figure, axes = blank_axes("", "AUC")
        _fitted(figure, len(bars))
        axes.axvline(0.5, color=INK, linestyle=DASHES[2], linewidth=1.1)
        places = range(len(bars))
        for place, bar in zip(places, bars, strict=True):
            colour = SERIES[bar.colour % SERIES_COLOURS]
            axes.plot([bar.low, bar.high], [place, place], color=colour, linewidth=1.8)
            axes.plot([bar.auc], [place], color=colour, marker="o", markersize=5)
        axes.set_yticks(list(places), [bar.attack for bar in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(min(0.45, *(bar.low - 0.02 for bar in bars)), max(1.0, *(bar.high for bar in bars)))
        axes.xaxis.set_major_locator(FixedLocator([place / 10 for place in range(11)]))
        return inline_svg(figure, identity)


def roc_plot(rates: Sequence[float], curves: Sequence[RocCurve], identity: str) -> str:
    """True against false positive rates, both from 0.1% to 100%; smaller ones lie on the lower edge.

    Args:
        rates: false positive rates, ascending, above 0.
        curves: at least one.
        identity: prefix of the ids in the SVG.
    """
    with matplotlib.rc_context(STYLE):
        figure, axes = blank_axes("members found", "non-members taken for members")
        figure.subplots_adjust(left=0.14, right=0.96)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.plot([LEAST, 1], [LEAST, 1], color=INK, linestyle=DASHES[2], linewidth=1.1)
        for curve in curves:
            axes.plot(
                rates,
                [max(rate, LEAST) for rate in curve.rates],
                color=SERIES[curve.style % SERIES_COLOURS],
                linestyle=DASHES[curve.style % len(DASHES)],
            )
        axes.set_xlim(LEAST, 1.06)
        axes.set_ylim(LEAST * 0.94, 1.06)
        _percent(axes)
        return inline_svg(figure, identity)


def _fitted(figure: Figure, bars: int) -> None:
    """Room for a line of text a bar, and for names beside them."""
    height = 0.55 + 0.21 * bars
    figure.set_figheight(height)
    figure.subplots_adjust(left=0.24, right=0.97, bottom=0.42 / height, top=1 - 0.06 / height)


def _percent(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(TICKS))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}%"))
