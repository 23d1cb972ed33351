"""Accuracy against what attacks reach: a mark a row and kind of target, and lines through rows of one setting."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtag.common.wording.visible import visible_line
from fedtag.server.comparison.attacked import NAMES
from fedtag.server.comparison.audits import AuditLine, audit_lines, kinds
from fedtag.server.comparison.plots import CURVE_HEIGHT, MARKERS
from fedtag.server.comparison.results import Comparison
from fedtag.server.pages.figures import PAGE, PAPER, Figure, Palette, percent_tick, png, styled
from fedtag.server.pages.plots import DASHES, inline_svg


def audit_png(comparison: Comparison) -> bytes:
    """A panel for each data set with audited runs, as a PNG; equal comparisons give equal bytes."""
    data = [name for name in comparison.data if audit_lines(comparison, name)]
    with styled(PAPER):
        return png(drawn_audits(comparison, data, PAPER))


def audit_svg(comparison: Comparison, data: str, identity: str) -> str:
    """The panel of one data set as an `<svg>` element in the page's colours."""
    with styled(PAGE):
        return inline_svg(drawn_audits(comparison, [data], PAGE), identity)


def drawn_audits(comparison: Comparison, data: Sequence[str], palette: Palette) -> Figure:
    """A figure with the panels below each other.

    Args:
        comparison: with audited runs.
        data: sets that have some; at least one.
        palette: of the figure.
    """
    figure = Figure(figsize=(palette.width, CURVE_HEIGHT * len(data)), layout="constrained")
    panels = figure.subplots(len(data), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, data, strict=True):
        draw_audits(axes, comparison, audit_lines(comparison, name), palette)
        if len(data) > 1:
            axes.set_title(visible_line(name), loc="left", fontsize=9.5)
    return figure


def draw_audits(axes: Axes, comparison: Comparison, lines: Sequence[AuditLine], palette: Palette) -> None:
    """Areas to the right, accuracy upwards; colours tell rows, marks tell what was attacked.

    Faint marks are single runs. A thin line joins the rows, in their order, that set the same settings to other values.
    """
    keys = {row.name: frozenset(row.settings) for row in comparison.rows}
    axes.grid(axis="both")
    axes.axvline(0.5, color=palette.ink, linestyle=DASHES[2], linewidth=1.1)
    for number, kind in enumerate(kinds(comparison)):
        mark = MARKERS[number]
        there = [(place, line) for place, line in enumerate(lines) if line.own.get(kind)]
        for setting in dict.fromkeys(keys[line.row] for _, line in there):
            along = [centre(line, kind) for _, line in there if keys[line.row] == setting]
            axes.plot(*zip(*along, strict=True), color=palette.ink, linewidth=0.6, alpha=0.6, zorder=1)
        for place, line in there:
            axes.plot(
                *zip(*line.own[kind], strict=True),
                mark,
                color=palette.of(place),
                alpha=0.3,
                markersize=4,
                markeredgewidth=0,
            )
            axes.plot(*centre(line, kind), mark, color=palette.of(place), markersize=6.5)
    for place, line in enumerate(lines):
        if any(line.own.values()):
            axes.plot([], [], color=palette.of(place), linewidth=6, label=visible_line(line.row))
    for number, kind in enumerate(kinds(comparison)):
        axes.plot([], [], MARKERS[number], color=palette.ink, fillstyle="none", label=NAMES[kind])
    axes.set_xlabel("AUC of the strongest attack (dotted: guessing)")
    axes.set_ylabel("test accuracy")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
    axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
    axes.margins(x=0.06, y=0.1)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)


def centre(line: AuditLine, kind: str) -> tuple[float, float]:
    """Mean area and mean accuracy of the runs in which a kind was attacked."""
    areas, accuracies = zip(*line.own[kind], strict=True)
    return sum(areas) / len(areas), sum(accuracies) / len(accuracies)
