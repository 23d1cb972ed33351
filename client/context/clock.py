"""How long the parts of the work on one message took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Durations by the name of the work.

    Attributes:
        seconds: so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def restart(self) -> None:
        """Begin the next message."""
        self.seconds = {}

    @contextmanager
    def timed(self, work: str) -> Iterator[None]:
        """Add the duration of a block to that of the work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[work] = self.seconds.get(work, 0.0) + time.perf_counter() - start
