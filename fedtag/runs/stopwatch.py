"""What the parts of a work cost."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Seconds that passed, and those of processors, of processes that were started and have ended too."""

    wall: float
    processor: float


class Stopwatch:
    """The cost of named parts, in their order."""

    def __init__(self) -> None:
        self.parts: dict[str, Cost] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """What is done while this lasts is the part of that name."""
        wall, processor = time.monotonic(), processor_seconds()
        yield
        self.parts[name] = Cost(time.monotonic() - wall, processor_seconds() - processor)

    @property
    def total(self) -> Cost:
        """All parts together."""
        costs = self.parts.values()
        return Cost(sum(one.wall for one in costs), sum(one.processor for one in costs))


def processor_seconds() -> float:
    """Of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
