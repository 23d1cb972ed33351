"""How a run tells a person where it stands."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from fedtag.common.config import RunConfig
from fedtag.common.config.extension import depending_on_rounds
from fedtag.common.errors import DataError
from fedtag.common.logs import Event, fields
from fedtag.common.wire.records import Reply
from fedtag.common.wording.counts import plural
from fedtag.common.wording.scoring import deviation
from fedtag.server.tracking.rows import RoundRow

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

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        """Something that a person should read; `told` is what the log in JSON says instead of the text."""
        ...


def percentage(value: float | None) -> str:
    """A fraction as a percentage, or a dash."""
    return "–" if value is None else f"{100 * value:.1f}%"


def with_spread(value: float | None, spread: float | None) -> str:
    """A pooled score with its standard deviation over clients, where that is known."""
    return f"{percentage(value)}{deviation(spread)}"


def describe(row: RoundRow) -> str:
    """A scored row in a few words."""
    loss = "–" if row.train_loss is None else f"{row.train_loss:.4f}"
    validation = with_spread(row.val_accuracy, row.val_spread)
    return f"loss {loss}, validation accuracy {validation}, test {with_spread(row.test_accuracy, row.test_spread)}"


class SilentProgress:
    """For rounds that nobody watches."""

    def begin(self, rounds: int, done: int) -> None: ...
    def advance(self, row: RoundRow) -> None: ...
    def scored(self, row: RoundRow) -> None: ...
    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None: ...


class LineProgress:
    """Plain lines, at most one every `interval` seconds; for logs and pipes."""

    def __init__(self, interval: float = 2.0) -> None:
        self.interval = interval
        self.rounds = 0
        self.last = 0.0

    def begin(self, rounds: int, done: int) -> None:
        self.rounds, self.last = rounds, 0.0
        event = fields(Event.RUN_RESUMED if done else Event.RUN_STARTED, round=done, rounds=rounds)
        LOGGER.info("%d rounds%s", rounds, f", going on after round {done}" if done else "", extra=event)

    def advance(self, row: RoundRow) -> None:
        event = fields(
            Event.ROUND,
            round=row.round,
            seconds=row.seconds,
            bytes=row.bytes_up + row.bytes_down,
            clients=row.clients_ok,
        )
        LOGGER.debug("round %d is over", row.round, extra=event)

    def scored(self, row: RoundRow) -> None:
        now = time.monotonic()
        if now - self.last >= self.interval or row.round == self.rounds:
            self.last = now
            event = fields(Event.SCORES, round=row.round, rounds=self.rounds)
            LOGGER.info("round %d of %d: %s", row.round, self.rounds, describe(row), extra=event)

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        LOGGER.warning("%s", text, extra=told)


def announce_extension(config: RunConfig, done: int, progress: Progress) -> None:
    """Say what follows from the number of rounds where a run begins that extends another one."""
    for sentence in depending_on_rounds(config) if config.extends(done) else ():
        progress.note(f"{sentence}.", fields(Event.EXTENDED, round=done))


def announce_guarantee(guarantee: Mapping[str, Any] | None, rounds: int, progress: Progress) -> None:
    """Say what the noise of a run will guarantee before any work is done.

    Args:
        guarantee: as for summary.json; None where there is none.
        rounds: of the run.
        progress: told.
    """
    if guarantee is None:
        return
    bound = guarantee["epsilon"]
    progress.note(
        f"differential privacy: epsilon {'without bound' if bound is None else f'{bound:.3g}'} at delta "
        f"{guarantee['delta']:g} after {plural(rounds, 'round')}, for {guarantee['unit']}",
        fields(Event.GUARANTEE, rounds=rounds),
    )


def check_learning(reported: Mapping[str, Reply], failures: Mapping[str, str], progress: Progress) -> None:
    """Refuse a run in which there is nothing to learn from; where somebody may not have answered, only say so.

    Args:
        reported: who told counts of nodes in round 1, to which all clients are asked.
        failures: who did not answer.
        progress: told.

    Raises:
        DataError: no client has a training node.
    """
    if any(reply.content.values["sizes"]["train_nodes"] for reply in reported.values()):
        return
    sentence = "no client has a training node, so nothing is learned: give nodes a split, or draw one with data.split"
    if reported and not failures:
        raise DataError(sentence)
    progress.note(sentence, fields(Event.NOTHING_LEARNED, round=1))
