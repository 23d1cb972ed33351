"""How the cells of a comparison show where they stand: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import Progress, TaskID

from fedtag.common.wording.counts import plural
from fedtag.common.wording.scoring import METRICS
from fedtag.comparison.matrix import Cell, Matrix
from fedtag.comparison.progress import ROUNDS, Note, Step
from fedtag.deploy.terminal.console import notices, say
from fedtag.deploy.terminal.display import progress_bars, resumable
from fedtag.server.comparison.results import score
from fedtag.server.pages.wording import duration
from fedtag.server.state.progress import percentage
from fedtag.server.tracking.run_directory import RunDirectory


@contextmanager
def cell_bars(matrix: Matrix, left: Sequence[Cell]) -> Iterator[CellBars]:
    """What is compared, and bars on stderr for the cells that are left to be run."""
    console = notices()
    counts = {
        "row": matrix.study.rows,
        "data set": matrix.data,
        "seed": matrix.study.seeds,
        "run": matrix.cells,
    }
    size = ", ".join(plural(len(of), name) for name, of in counts.items())
    say(console, f"{size}; {len(matrix.cells) - len(left)} finished before; results go to {matrix.home}")
    bars = progress_bars(console)
    with resumable(lambda: "the same command goes on from here"), bars if left else nullcontext():
        yield CellBars(left, console, bars)


class CellBars:
    """A line for each cell that ends; on a terminal also a bar over all rounds and one a running cell."""

    def __init__(self, cells: Sequence[Cell], console: Console, bars: Progress) -> None:
        self.console = console
        self.bars = bars
        self.total = len(cells)
        self.ended = 0
        self.start = time.monotonic()
        self.begun: dict[Cell, float] = {}
        self.tasks: dict[Cell, TaskID] = {}
        self.rounds: dict[Cell, int] = {}
        self.whole = bars.add_task("all runs", total=sum(cell.config.rounds for cell in cells), detail="")

    def begin(self, cell: Cell) -> None:
        self.begun[cell] = time.monotonic()
        self.tasks[cell] = self.bars.add_task(cell.name, total=cell.config.rounds, detail="")

    def report(self, cell: Cell, said: Step | Note) -> None:
        if isinstance(said, Note):
            say(self.console, f"{cell.name}: {said.text}", "yellow")
        elif said.what == ROUNDS:
            self._advance(cell, said.done)
            self.bars.update(self.tasks[cell], completed=said.done, detail="")
        else:
            working = f"{said.what}, {said.done} of {said.total}" if said.done < said.total else ""
            self.bars.update(self.tasks[cell], detail=working)

    def end(self, cell: Cell, error: str | None) -> None:
        self.ended += 1
        self.bars.remove_task(self.tasks.pop(cell))
        self._advance(cell, cell.config.rounds)
        now = time.monotonic()
        took = duration(now - self.begun.pop(cell))
        said = f"failed: {error}" if error is not None else f"{scores(cell)}, {took}"
        left = (now - self.start) / self.ended * (self.total - self.ended)
        rest = f"; about {duration(left)} left" if self.ended < self.total else ""
        style = "red" if error is not None else ""
        say(self.console, f"{self.ended} of {self.total}  {cell.name}: {said}{rest}", style)

    def _advance(self, cell: Cell, done: int) -> None:
        self.bars.advance(self.whole, done - self.rounds.get(cell, 0))
        self.rounds[cell] = done


def scores(cell: Cell) -> str:
    """The scores of a finished cell in a few words."""
    summary = RunDirectory.open(cell.path).read_summary()
    if summary is None:
        return "no scores"
    val, test = (percentage(score(summary, subset, summary.metric)) for subset in ("val", "test"))
    return f"validation {METRICS[summary.metric]} {val}, test {test}"
