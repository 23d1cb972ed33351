"""How a run shows where it stands: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from fedtag.deploy.terminal.console import notices, say
from fedtag.server.state.progress import LineProgress, describe
from fedtag.server.state.progress import Progress as RunProgress
from fedtag.server.tracking.rows import RoundRow

Work = Callable[[str, int, int], None]
LOGGER = logging.getLogger("fedtag")
SECONDS_BETWEEN_LINES = 5.0


class Display(Protocol):
    """Where a run and its clients report to."""

    @property
    def rounds(self) -> RunProgress:
        """For the round loop."""
        ...

    def work(self, site: str) -> Work:
        """For the long work of a site: called with what it does, how much is done, and of how much."""
        ...

    def stage(self, text: str) -> None:
        """What the run does at this moment, where that takes long; may be told again and again."""
        ...


@contextmanager
def display(debug: bool = False) -> Iterator[Display]:
    """A display on stderr; the log of fedtag goes there too while it lasts."""
    console = notices()
    bars = progress_bars(console)
    handler = ConsoleHandler(console, debug)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG if debug else logging.INFO)
    try:
        with bars:
            yield Bars(bars) if console.is_terminal else Lines()
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def progress_bars(console: Console) -> Progress:
    """Bars with time and room for a detail; nothing where there is no terminal."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
        console=console,
        disable=not console.is_terminal,
    )


class Bars:
    """Progress bars: one for the rounds, one for each long work of a site while it lasts."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.rounds = RoundBar(bars)
        self.tasks: dict[str, TaskID] = {}

    def work(self, site: str) -> Work:
        def show(what: str, done: int, total: int) -> None:
            name = f"{site}: {what}"
            if name not in self.tasks:
                self.tasks[name] = self.bars.add_task(name, detail="")
            self.bars.update(self.tasks[name], completed=done, total=total, visible=done < total)

        return show

    def stage(self, text: str) -> None:
        self.rounds.stage(text)


class RoundBar:
    """The bar of the rounds, with the scores of the last one that has them."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.task: TaskID | None = None

    def begin(self, rounds: int, done: int) -> None:
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.task = self.bars.add_task("rounds", total=rounds, completed=done, detail="")

    def advance(self, row: RoundRow) -> None:
        if self.task is not None:
            self.bars.update(self.task, completed=row.round)

    def scored(self, row: RoundRow) -> None:
        if self.task is not None:
            self.bars.update(self.task, detail=describe(row))

    def stage(self, text: str) -> None:
        if self.task is not None:
            self.bars.update(self.task, detail=text)

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        LOGGER.warning("%s", text, extra=told)


class Lines:
    """Plain lines for pipes and logs, not more than a person would read."""

    def __init__(self) -> None:
        self.rounds: RunProgress = LineProgress(SECONDS_BETWEEN_LINES)
        self._stage = ""
        self._stage_told = -SECONDS_BETWEEN_LINES

    def work(self, site: str) -> Work:
        last = -SECONDS_BETWEEN_LINES

        def show(what: str, done: int, total: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SECONDS_BETWEEN_LINES or done == total:
                last = now
                LOGGER.info("%s: %s, %d of %d", site, what, done, total)

        return show

    def stage(self, text: str) -> None:
        now = time.monotonic()
        if text != self._stage and now - self._stage_told >= SECONDS_BETWEEN_LINES:
            self._stage, self._stage_told = text, now
            LOGGER.info("%s", text)


class ConsoleHandler(logging.Handler):
    """The log on the console, above the bars where there are any; tracebacks only when debugging."""

    def __init__(self, console: Console, debug: bool) -> None:
        super().__init__()
        self.console = console
        self.debug = debug

    def emit(self, record: logging.LogRecord) -> None:
        style = (
            "red"
            if record.levelno >= logging.ERROR
            else "yellow"
            if record.levelno >= logging.WARNING
            else ""
        )
        say(self.console, record.getMessage(), style)
        if self.debug and record.exc_info:
            say(self.console, logging.Formatter().formatException(record.exc_info))
