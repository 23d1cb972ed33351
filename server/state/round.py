"""What belongs to one round while it goes on, and what came of an exchange."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from fedtag.common.wire.records import Reply


@dataclass
class Traffic:
    """Bytes on the wire in a round."""

    up: int = 0
    down: int = 0


def scores_due(number: int, every: int) -> bool:
    """Whether clients score the model of the round before in a round, as in every so many."""
    return number > 1 and (number - 1) % every == 0


@dataclass
class Exchanged:
    """What came of one exchange: replies, the releases behind them and reasons of failure by node, bytes on the wire,
    seconds, and the bytes of each sign that a node works.
    """

    replies: dict[int, Reply] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    releases: dict[int, str] = field(default_factory=dict)
    signs: dict[int, list[int]] = field(default_factory=dict)


class Round:
    """What belongs to one round while it goes on: its number, whether scores are due, durations, bytes.

    `ahead` are seconds that it spends on later rounds, below 0 those that earlier ones have spent on it.
    """

    def __init__(self, number: int, due: bool = False) -> None:
        self.number = number
        self.due = due
        self.seconds: dict[str, float] = {}
        self.ahead = 0.0
        self.traffic = Traffic()

    def left(self, start: float) -> float:
        """Seconds since a reading of the clock that no phase accounts for."""
        return max(0.0, time.monotonic() - start - sum(self.seconds.values()) - self.ahead)
