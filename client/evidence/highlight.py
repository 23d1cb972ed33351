"""Texts cut into shown pieces, so that selected spans can be marked at their exact offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WHOLE = 6000  # characters up to which a text is shown in full
MARGIN = 750  # characters of context on either side of a span in a longer text


@dataclass(frozen=True)
class Piece:
    """A run of a text that one set of spans covers, or a run that is left out.

    Args:
        text: the literal characters; empty for a run that is left out.
        spans: indices of the spans that cover it, ascending.
        begins: indices of the spans whose first shown character is the first of this piece.
        omitted: number of characters left out here; 0 for a shown piece.
    """

    text: str
    spans: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()
    omitted: int = 0


def pieces(
    text: str, spans: Sequence[tuple[int, int]], whole: int = WHOLE, margin: int = MARGIN
) -> list[Piece]:
    """Cut a text at the borders of its spans.

    The shown pieces joined with the characters left out give the text; the pieces of a span, joined,
    give `text[start:end]`, unless the span itself is longer than twice `whole`, when its middle is left
    out. Spans may overlap; what lies outside the text is ignored.

    Args:
        text: a source text.
        spans: (start, end) in characters.
        whole: a text of at most this length is shown in full.
        margin: context in longer texts; without spans, the beginning of the text is shown.
    """
    size = len(text)
    clipped = [(min(max(start, 0), size), min(max(end, 0), size)) for start, end in spans]
    windows = [(0, size)] if size <= whole else _windows(clipped, size, whole, margin)
    borders = {0, size}
    for start, end in [*windows, *clipped]:
        borders |= {start, end}
    cuts = sorted(borders)
    result: list[Piece] = []
    begun: set[int] = set()
    omitted = 0
    for left, right in pairwise(cuts):
        if not any(start <= left and right <= end for start, end in windows):
            omitted += right - left
            continue
        if omitted:
            result.append(Piece("", omitted=omitted))
            omitted = 0
        cover = tuple(j for j, (start, end) in enumerate(clipped) if start <= left and right <= end)
        begins = tuple(j for j in cover if j not in begun)
        begun |= set(begins)
        result.append(Piece(text[left:right], cover, begins))
    if omitted:
        result.append(Piece("", omitted=omitted))
    return result


def _windows(spans: Sequence[tuple[int, int]], size: int, whole: int, margin: int) -> list[tuple[int, int]]:
    windows: list[tuple[int, int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if end - start > 2 * whole:
            windows += [(max(start - margin, 0), start + whole), (end - whole, min(end + margin, size))]
        else:
            windows.append((max(start - margin, 0), min(end + margin, size)))
    return windows or [(0, min(2 * margin, size))]
