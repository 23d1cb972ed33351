"""What it means for the reader of a run that its clients were trained at once."""

from __future__ import annotations

STACKED = (
    "All clients were trained at once, in one process (engine = stacked): no message crossed. Records and bytes are "
    "those that exchanges with each client would carry, without what the wire adds"
)


def engine_words(engine: str) -> str:
    """A sentence without full stop; empty where each client was trained by itself."""
    return STACKED if engine == "stacked" else ""
