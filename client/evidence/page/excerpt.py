"""The parts of a text that a page shows."""

from __future__ import annotations

from collections.abc import Iterable

from fedtag.common.wording.visible import visible

WHOLE = 6000  # characters up to which a text is shown in full
MARGIN = 750  # characters of context on either side of a span in a longer text

Part = tuple[int, str]
"""Where a part begins in the text, in characters, and its characters."""


def excerpt(
    text: str, spans: Iterable[tuple[int, int]], whole: int = WHOLE, margin: int = MARGIN
) -> list[Part]:
    """A short text in full; of a longer one the spans with some context, or its beginning where there are none.

    What steers a line or cannot be seen is replaced, one character by one. Of a span longer than twice `whole` the
    middle is left out. What lies outside the text is ignored.

    Args:
        text: a source text.
        spans: (start, end) in characters; they may overlap.
        whole: a text of at most this length is shown in full.
        margin: context in longer texts.
    """
    size = len(text)
    if size <= whole:
        return [(0, _shown(text))] if text else []
    windows: list[tuple[int, int]] = []
    for start, end in spans:
        if not 0 <= start < end <= size:
            continue
        if end - start > 2 * whole:
            windows += [(start - margin, start + whole), (end - whole, end + margin)]
        else:
            windows.append((start - margin, end + margin))
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(start, 0), min(end, size)) for start, end in windows):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return [(start, _shown(text[start:end])) for start, end in joined or [(0, min(2 * margin, size))]]


def _shown(text: str) -> str:
    # A carriage return does nothing on a page; `visible` would join it with the line feed after it.
    return "\r".join(visible(part) for part in text.split("\r"))
