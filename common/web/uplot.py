"""uPlot 1.6.32 (MIT, Leon Sorokin), as npm has it: charts on a canvas, without a request to anywhere."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def script() -> str:
    """What defines `uPlot` in a page; it holds no end of a script element."""
    return HERE.joinpath("uplot.js").read_text(encoding="utf-8").strip()


@cache
def stylesheet() -> str:
    """The rules that its elements need."""
    return HERE.joinpath("uplot.css").read_text(encoding="utf-8").strip()
