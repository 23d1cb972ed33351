"""The scores of one run over rounds, as a figure of its own."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedtag.server.pages.figures import PAPER, Figure, percent_tick, styled
from fedtag.server.pages.plots import Line, draw_lines
from fedtag.server.tracking.rows import RoundRow

HEIGHT = 3.4


def score_figure(rows: Sequence[RoundRow], released: int | None) -> Figure:
    """Accuracy on validation and test nodes over rounds, with a line at the released one, if there is any."""
    with styled(PAPER):
        figure = Figure(figsize=(PAPER.width, HEIGHT), layout="constrained")
        axes = figure.subplots()
        rounds = [row.round for row in rows]
        lines = [
            Line(rounds, [row.test_accuracy for row in rows], 0),
            Line(rounds, [row.val_accuracy for row in rows], 1, 1),
        ]
        draw_lines(axes, lines, PAPER.series, ["test", "validation"])
        if released is not None:
            axes.axvline(
                released, color=PAPER.ink, linewidth=0.8, linestyle=":", label=f"released: round {released}"
            )
        axes.set_xlabel("round")
        axes.set_ylabel("accuracy")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
        axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.legend(frameon=False)
    return figure
