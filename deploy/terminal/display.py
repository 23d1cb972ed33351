"""How a run shows where it stands: bars on a terminal, the lines of the log elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

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

from fedtag.common.errors import DeploymentError, QuorumError
from fedtag.common.logs import LOGGER
from fedtag.deploy.terminal.console import notices, say
from fedtag.deploy.terminal.interruption import TerminatedError
from fedtag.runs.progress import LogProgress, Pace, Work
from fedtag.runs.progress import Progress as RunProgress
from fedtag.server.state.progress import describe
from fedtag.server.tracking.rows import RoundRow


@contextmanager
def display(debug: bool = False) -> Iterator[RunProgress]:
    """A display on stderr; the log of fedtag goes there too while it lasts."""
    console = notices()
    bars = progress_bars(console)
    handler = ConsoleHandler(console, debug)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG if debug else logging.INFO)
    try:
        yield Bars(bars) if console.is_terminal else LogProgress()
    finally:
        bars.stop()
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


@contextmanager
def resumable(advice: Callable[[], str]) -> Iterator[None]:
    """Say how the work goes on, where it is stopped while this lasts: from outside, or since too little answered.

    Args:
        advice: asked when it is stopped.
    """
    try:
        yield
    except (KeyboardInterrupt, TerminatedError, QuorumError, DeploymentError):
        say(notices(), f"stopped; {advice()}", "yellow")
        raise


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
    """Progress bars, which appear with the first: one for the rounds, one for each long work of a site."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.rounds = RoundBar(bars)
        self.tasks: dict[str, TaskID] = {}

    def work(self, site: str) -> Work:
        pace = Pace()

        def show(what: str, done: int, total: int) -> None:
            name = f"{site}: {what}"
            if name not in self.tasks:
                self.bars.start()
                self.tasks[name] = self.bars.add_task(name, detail="")
            speed = pace.said(what, done, total).partition(",")[0]
            self.bars.update(self.tasks[name], completed=done, total=total, detail=speed)
            if done >= total:
                self.bars.remove_task(self.tasks.pop(name))

        return show

    def stage(self, text: str) -> None:
        self.rounds.stage(text)


class RoundBar:
    """The bar of the rounds, with the scores of the last one that has them; those of finished runs stay."""

    def __init__(self, bars: Progress) -> None:
        self.bars = bars
        self.task: TaskID | None = None

    def begin(self, rounds: int, done: int) -> None:
        self.bars.start()
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
