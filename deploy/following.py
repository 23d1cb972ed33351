"""Following a run in another process by the rows that it appends to its run directory."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from server.progress import Progress
from server.tracking.durable_files import read_lines
from server.tracking.rows import RoundRow, object_to_row
from server.tracking.run_directory import METRICS

_POLL_SECONDS = 0.25


class Follower:
    """Tells a progress about each new row of metrics.jsonl, in a thread of its own, while a context lasts.

    Args:
        run: the run directory.
        rounds: of the whole run.
        progress: told about rows.
    """

    def __init__(self, run: Path, rounds: int, progress: Progress) -> None:
        self._file = run / METRICS
        self._rounds = rounds
        self._progress = progress
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._last = max((row.round for row in self._rows()), default=0)

    def __enter__(self) -> Self:
        self._progress.begin(self._rounds, self._last)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._tell()

    def _follow(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        for row in self._rows():
            if row.round > self._last:
                self._last = row.round
                self._progress.advance(row)
                self._progress.scored(row)

    def _rows(self) -> list[RoundRow]:
        return [object_to_row(RoundRow, record) for record in read_lines(self._file)]
