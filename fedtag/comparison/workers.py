"""Running cells one after the other here, or several at once in processes of their own.

A process serves one cell after another. What it sends are lines of JSON; when it dies, the cell that it
was running has failed and a new process takes its place.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from fedtag.comparison.execution import attempt, cell_of, cell_text
from fedtag.comparison.matrix import Cell
from fedtag.comparison.progress import ROUNDS, MatrixProgress, Note, Report, Step

SECONDS_TO_END = 10.0


def run_here(cells: Sequence[Cell], progress: MatrixProgress, debug: bool) -> dict[Cell, str]:
    """Run cells one after the other in this process.

    Returns:
        why cells failed, by cell.
    """
    failures: dict[Cell, str] = {}
    for cell in cells:
        progress.begin(cell)
        error = attempt(cell, reporter(cell, progress), debug)
        progress.end(cell, error)
        if error is not None:
            failures[cell] = error
    return failures


def reporter(cell: Cell, progress: MatrixProgress) -> Report:
    """Passes on what one cell reports."""
    return lambda said: progress.report(cell, said)


@dataclass(frozen=True)
class End:
    """A cell is over; `error` is why it failed, and `lives` whether its process can take another one."""

    error: str | None
    lives: bool = True


@dataclass(frozen=True)
class Worker:
    """A process that runs cells, and the line to it."""

    process: BaseProcess
    line: Connection


class Workers:
    """Processes with one thread each; they end with the context, whatever they do at that time."""

    def __init__(self, count: int, debug: bool) -> None:
        self.count = count
        self.debug = debug
        self.idle: list[Worker] = []
        self.busy: dict[Connection, tuple[Worker, Cell]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        everyone = [*self.idle, *(worker for worker, _ in self.busy.values())]
        for worker in everyone:
            worker.process.terminate()
        for worker in everyone:
            worker.process.join(SECONDS_TO_END)
            worker.line.close()

    def run(
        self, cells: Sequence[Cell], progress: MatrixProgress, cached: Iterable[tuple[str, str]] = ()
    ) -> dict[Cell, str]:
        """Run cells, as many at once as there may be processes.

        The first cell with certain texts goes ahead until it has encoded them, so that the others find
        them in the cache, unless they are among those that are `cached`.

        Returns:
            why cells failed, by cell.
        """
        waiting, encoded = list(cells), set(cached)
        failures: dict[Cell, str] = {}
        while waiting or self.busy:
            self._assign(waiting, encoded, progress)
            for line in wait(list(self.busy)):
                assert isinstance(line, Connection)
                worker, cell = self.busy[line]
                said = self._received(worker)
                if isinstance(said, Step | Note):
                    progress.report(cell, said)
                    if isinstance(said, Step) and said.what == ROUNDS and said.done:
                        encoded.add(cell.texts)
                    continue
                del self.busy[line]
                if said.lives:
                    self.idle.append(worker)
                if said.error is None:
                    encoded.add(cell.texts)
                else:
                    failures[cell] = said.error
                progress.end(cell, said.error)
        return failures

    def _assign(self, waiting: list[Cell], encoded: set[tuple[str, str]], progress: MatrixProgress) -> None:
        encoding = {cell.texts for _, cell in self.busy.values()} - encoded
        for cell in list(waiting):
            if len(self.busy) >= self.count:
                return
            if cell.texts in encoding:
                continue
            if cell.texts not in encoded:
                encoding.add(cell.texts)
            waiting.remove(cell)
            worker = self._given(cell_text(cell).encode())
            self.busy[worker.line] = (worker, cell)
            progress.begin(cell)

    def _given(self, task: bytes) -> Worker:
        """A worker that has got a task: an idle one that still lives, else a new one."""
        while self.idle:
            worker = self.idle.pop()
            try:
                worker.line.send_bytes(task)
            except ConnectionError:
                self._closed(worker)
            else:
                return worker
        worker = self._started()
        # One that dies at once has closed its line, which is read next and tells how it ended.
        with suppress(ConnectionError):
            worker.line.send_bytes(task)
        return worker

    @staticmethod
    def _closed(worker: Worker) -> int | None:
        """The exit code of a process that has closed its line."""
        worker.process.join(SECONDS_TO_END)
        worker.line.close()
        return worker.process.exitcode

    def _started(self) -> Worker:
        # Spawned and not forked: a fork of a process in which PyTorch has threads may hang.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.debug), daemon=True)
        # Ctrl-C reaches every process of a terminal, and only this one shall act upon it: the others inherit
        # that it is blocked. The tracker of multiprocessing unblocks it when it starts, so it starts before.
        resource_tracker.ensure_running()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()
        return Worker(process, ours)

    def _received(self, worker: Worker) -> Step | Note | End:
        try:
            record = json.loads(worker.line.recv_bytes())
        except (EOFError, ConnectionError):
            return End(f"its process ended with {ending(self._closed(worker))}", lives=False)
        match record:
            case {"what": what, "done": done, "total": total}:
                return Step(what, done, total)
            case {"text": text}:
                return Note(text)
        return End(record["error"])


def ending(code: int | None) -> str:
    """How a process ended; one that the system stops for want of memory ends with signal 9."""
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def end_with_parent() -> None:
    """Wait for the end of the process that started this one, then end it, in whatever it does.

    A closed line is only seen by who sends, and a round may take hours; the run goes on from its last complete round.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def serve(line: Connection, debug: bool) -> None:
    """Run the cells that come over the line, until it is closed."""
    import torch

    threading.Thread(target=end_with_parent, name="parent", daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)

    def report(said: Step | Note) -> None:
        line.send_bytes(json.dumps(asdict(said)).encode())

    while True:
        try:
            cell = cell_of(line.recv_bytes().decode())
        except EOFError:
            return
        line.send_bytes(json.dumps({"error": attempt(cell, report, debug)}).encode())
