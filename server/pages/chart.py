"""A chart of a page: what is drawn, its legend, and what it says to readers who do not see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedtag.server.pages.plots import Band, Line, line_plot


@dataclass(frozen=True)
class Key:
    """One entry of a legend: text, colour and dash of the line, or a filled square, faint for a band."""

    text: str
    colour: int
    dash: str = ""
    filled: bool = False
    faint: bool = False


@dataclass(frozen=True)
class Chart:
    """One figure: `alt` says in words what the plot shows."""

    title: str
    note: str
    alt: str
    svg: Markup
    keys: tuple[Key, ...]


def line_chart(
    title: str,
    note: str,
    alt: str,
    lines: Sequence[Line],
    identity: str,
    keys: Sequence[Key],
    *,
    y_label: str = "",
    in_percent: bool = False,
    from_zero: bool = False,
    whole: bool = False,
    bands: Sequence[Band] = (),
) -> Chart | None:
    """A chart of the lines that have values, None where none has."""
    drawn = [one for one in lines if not one.is_empty]
    if not drawn:
        return None
    svg = Markup(
        line_plot(
            drawn,
            y_label,
            identity,
            percent=in_percent,
            from_zero=from_zero,
            whole=whole,
            bands=bands,
        )
    )
    return Chart(title, note, alt, svg, tuple(keys))
