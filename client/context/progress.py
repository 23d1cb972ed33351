"""Who is told how far long work is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fedtag.client.text.encoder import Progress

Report = Callable[[str, int, int], None]
"""Told what is done, how much of it, of how much."""


def progress_of(report: Report | None, work: str) -> Progress | None:
    """A callback with (done, total) for one kind of long work; None if nobody listens."""
    return None if report is None else partial(report, work)
