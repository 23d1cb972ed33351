"""Figures of their own, as PNG files and in notebooks: their colours, their style and their bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import matplotlib
from matplotlib import figure
from matplotlib.backends.backend_agg import FigureCanvasAgg

from fedtag.server.pages.plots import GRID, INK, SERIES, STYLE

DOTS_PER_INCH = 160


class Figure(figure.Figure):
    """A figure that a notebook shows, whether pyplot was imported or not."""

    def _repr_png_(self) -> bytes:
        return png(self)


@dataclass(frozen=True)
class Palette:
    """Colours of a figure, and its width in inches."""

    ink: str
    grid: str
    series: Sequence[str]
    width: float

    def of(self, index: int) -> str:
        """The colour of a series; they repeat."""
        return self.series[index % len(self.series)]


PAGE = Palette(INK, GRID, SERIES, 5.4)
PAPER = Palette(
    "#3d444b",
    "#dfe2e4",
    ("#0072b2", "#d55e00", "#009e73", "#b5589a", "#c98a00", "#3d9bd3", "#4d4d4d", "#8a6d3b"),
    7.0,
)


def png(drawing: figure.Figure) -> bytes:
    """The bytes of a figure, without date or program."""
    FigureCanvasAgg(drawing)
    buffer = io.BytesIO()
    drawing.savefig(
        buffer,
        format="png",
        dpi=DOTS_PER_INCH,
        facecolor="white",
        bbox_inches="tight",
        metadata={"Software": None},
    )
    return buffer.getvalue()


@contextmanager
def styled(palette: Palette) -> Iterator[None]:
    """Plots in the report's style, in the colours of the palette."""
    names = ("axes.labelcolor", "text.color", "xtick.color", "ytick.color")
    colours = dict.fromkeys(names, palette.ink) | dict.fromkeys(
        ("axes.edgecolor", "grid.color"), palette.grid
    )
    with matplotlib.rc_context(STYLE | colours), warnings.catch_warnings():
        # Names may be in scripts that the font lacks; the tables have them in full.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def percent_tick(value: float, _: object) -> str:
    """A fraction as the percentage beside a tick."""
    return f"{100 * value:.4g}%"
