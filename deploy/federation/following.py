"""Following a run in another process by what it writes into its run directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from fedtag.common.errors import RunError
from fedtag.common.wording.counts import plural
from fedtag.runs.progress import Progress
from fedtag.server.tracking.durable_files import read_lines
from fedtag.server.tracking.row_objects import object_to_row
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import METRICS
from fedtag.server.tracking.status import AWAITED, INVOLVED, RunStatus, read_status

_POLL_SECONDS = 0.25
PATIENCE_SECONDS = 2.0
"""An exchange that takes no longer is not worth a word."""

Ended = Callable[[], Mapping[str, int]]


class Follower:
    """Reports rounds, long exchanges and nodes that ended, in a thread of its own.

    Args:
        run: the run directory.
        rounds: of the whole run.
        progress: of the run, as it is here.
        names: the site behind a node, as far as known.
        ended: exit codes of the sites' programs that ended.
    """

    def __init__(
        self,
        run: Path,
        rounds: int,
        progress: Progress,
        names: Callable[[], Mapping[str, str]] = dict,
        ended: Ended = dict,
    ) -> None:
        self._run = run
        self._rounds = rounds
        self._progress = progress
        self._names = names
        self._ended = ended
        self._gone: set[str] = set()
        self._stage = ""
        self._stage_began = time.monotonic()
        # What an earlier part of a resumed run has left says nothing of this one.
        self._old = self._status()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._last = max((row.round for row in self._rows()), default=0)

    def __enter__(self) -> Self:
        self._progress.rounds.begin(self._rounds, self._last)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._report_rows()

    def _follow(self) -> None:
        while not self._over.wait(_POLL_SECONDS):
            self._report_rows()
            self._report_ended()
            self._report_stage()

    def _report_rows(self) -> None:
        for row in self._rows():
            if row.round > self._last:
                self._last = row.round
                self._progress.rounds.advance(row)
                self._progress.rounds.scored(row)

    def _report_ended(self) -> None:
        for site, code in self._ended().items():
            if site not in self._gone:
                self._gone.add(site)
                self._progress.rounds.note(
                    f"the SuperNode of {site} ended with code {code}: its log says why"
                )

    def _report_stage(self) -> None:
        status = self._status()
        if status is None or status == self._old:
            return
        stage = stage_of(status, self._names())
        if stage != self._stage:
            self._stage, self._stage_began = stage, time.monotonic()
        elif stage and time.monotonic() - self._stage_began >= PATIENCE_SECONDS:
            self._progress.stage(stage)

    def _rows(self) -> list[RoundRow]:
        return [object_to_row(RoundRow, record) for record in read_lines(self._run / METRICS)]

    def _status(self) -> RunStatus | None:
        try:
            return read_status(self._run)
        except RunError:
            # Who reads next sees it whole, or the command `status` tells what is wrong with it.
            return None


def stage_of(status: RunStatus, names: Mapping[str, str]) -> str:
    """What a run does at this moment, in words; nothing between two exchanges.

    Args:
        status: of the run.
        names: the site behind a node that has not introduced itself.
    """
    if status.state == "waiting for clients":
        online = sum(client.state != "offline" for client in status.clients)
        return f"waiting for {plural(status.wanted, 'client')}, {online} online"
    if status.phase is None:
        return ""
    asked = [client for client in status.clients if client.state in INVOLVED]
    awaited = [
        client.name or names.get(client.node, f"node {client.node}")
        for client in asked
        if client.state in AWAITED
    ]
    where = "closing exchange" if status.state == "closing" else f"round {status.current}, {status.phase}"
    first = ", which loads texts and models" if status.current == 1 and not any(c.name for c in asked) else ""
    left = f", waiting for {', '.join(sorted(awaited))}" if awaited else ""
    return f"{where}{first}: {len(asked) - len(awaited)} of {len(asked)} clients answered{left}"
