"""A text with some of its spans cut out, which is what a reader without them would have been given."""

from __future__ import annotations

from collections.abc import Iterable


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The characters of `text` that lie in none of the spans, in their order.

    Args:
        text: any text.
        spans: (start, end) in characters, 0 <= start <= end; they may overlap and come in any order.
    """
    kept: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start > position:
            kept.append(text[position:start])
        position = max(position, end)
    kept.append(text[position:])
    return "".join(kept)
