"""How a run tells a person where it stands."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from server.tracking.rows import RoundRow

LOGGER = logging.getLogger("fedtag")


class Progress(Protocol):
    """What the round loop reports to: a bar on a terminal, lines in a log."""

    def begin(self, rounds: int, done: int) -> None:
        """The run starts, or goes on after `done` rounds."""
        ...

    def advance(self, row: RoundRow) -> None:
        """A round is over; its model is not scored yet."""
        ...

    def scored(self, row: RoundRow) -> None:
        """The model of a round has been scored, or was not due to be."""
        ...

    def note(self, text: str) -> None:
        """Something that a person should read."""
        ...


def percentage(value: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if value is None else f"{100 * value:.1f}%"


def describe(row: RoundRow) -> str:
    """A scored row in a few words."""
    loss = "–" if row.train_loss is None else f"{row.train_loss:.4f}"
    return f"loss {loss}, validation {percentage(row.val_accuracy)}, test {percentage(row.test_accuracy)}"


class LineProgress:
    """Plain lines, at most one every `interval` seconds; for logs and pipes."""

    def __init__(self, interval: float = 2.0) -> None:
        self.interval = interval
        self.rounds = 0
        self.last = 0.0

    def begin(self, rounds: int, done: int) -> None:
        self.rounds = rounds
        LOGGER.info("%d rounds%s", rounds, f", going on after round {done}" if done else "")

    def advance(self, row: RoundRow) -> None:
        LOGGER.debug("round %d is over", row.round)

    def scored(self, row: RoundRow) -> None:
        now = time.monotonic()
        if now - self.last >= self.interval or row.round == self.rounds:
            self.last = now
            LOGGER.info("round %d of %d: %s", row.round, self.rounds, describe(row))

    def note(self, text: str) -> None:
        LOGGER.warning("%s", text)
