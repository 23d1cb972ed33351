"""What the cells of a comparison report, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fedtag.comparison.matrix import Cell, Matrix
from fedtag.runs.progress import Work
from fedtag.server.state.progress import Progress as RoundProgress
from fedtag.server.tracking.rows import RoundRow

ROUNDS = "rounds"


@dataclass(frozen=True)
class Step:
    """`done` of `total` of some work are done; the work called ROUNDS is the run itself."""

    what: str
    done: int
    total: int


@dataclass(frozen=True)
class Note:
    """Something that a person should read."""

    text: str


Report = Callable[[Step | Note], None]


class MatrixProgress(Protocol):
    """Who learns how the cells fare."""

    def begin(self, cell: Cell) -> None:
        """A cell starts or goes on."""
        ...

    def report(self, cell: Cell, said: Step | Note) -> None:
        """What a cell reports."""
        ...

    def end(self, cell: Cell, error: str | None) -> None:
        """A cell has finished, or failed for a reason."""
        ...


MatrixDisplay = Callable[[Matrix, Sequence[Cell]], AbstractContextManager[MatrixProgress]]
"""Shows a matrix while those of its cells that are left are run."""


class CellProgress:
    """The progress of one run as steps and notes."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.rounds: RoundProgress = CellRounds(report)

    def work(self, site: str) -> Work:
        return lambda what, done, total: self.report(Step(f"{site}: {what}", done, total))

    def stage(self, text: str) -> None:
        """A matrix shows the steps of its cells."""


class CellRounds:
    """The progress of the rounds as steps and notes."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.total = 0

    def begin(self, rounds: int, done: int) -> None:
        self.total = rounds
        self.report(Step(ROUNDS, done, rounds))

    def advance(self, row: RoundRow) -> None:
        self.report(Step(ROUNDS, row.round, self.total))

    def scored(self, row: RoundRow) -> None:
        """Scores are shown once, when the run has finished."""

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.report(Note(text))
