"""What is seen of a run while it goes on: status.json, metrics, and the events of the log."""

from __future__ import annotations

import logging
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedtag.common.config import RunConfig
from fedtag.common.logs import EVENTS, LOGGER, Event, fields
from fedtag.server.state.progress import Progress
from fedtag.server.state.round import Exchanged
from fedtag.server.state.troubles import MOST_CHARACTERS, reason_of
from fedtag.server.tracking.meters import Meters
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.status import ClientState, ClientStatus, RunStatus, State, moment, write_status

BEAT_SECONDS = 10.0
"""Between two writings while nothing happens; a status that is much older has lost its writer."""
REPLY_SECONDS = 0.2
"""Between two writings because of replies, which may come by the hundred."""
MOST_STRANGERS = 20
"""Nodes that went away before they said who they are; a SuperNode that is restarted again and again makes many."""


class Monitor:
    """Told by the round loop what happens; a context that lasts as long as the loop.

    A status that cannot be written is noted once and holds nothing up.

    Args:
        folder: the run directory.
        config: of the run.
        progress: told where the status cannot be written.
        meters: of the run.
        now: the clock.
        flower_run: Flower's number of the run; None where Flower has not started it.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig,
        progress: Progress,
        meters: Meters,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        flower_run: str | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        self.progress = progress
        self.meters = meters
        self.flower_run = flower_run
        self.now = now
        self.status: RunStatus | None = None
        self._clients: dict[int, ClientStatus] = {}
        self._seconds: list[float] = []
        self._round_began = now()
        self._written = -BEAT_SECONDS
        self._noted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.status is None:
            return
        state: State = "finished" if error is None else "stopped"
        self._move(state=state, reason=None if error is None else reason_of(error), current=None)
        self._move(phase=None, since=None, deadline=None, expected_end=None)
        self._write()
        event = Event.RUN_FINISHED if error is None else Event.RUN_STOPPED
        name = None if error is None else type(error).__name__
        entry = fields(event, run=self.status.run, round=self.status.round, error=name)
        EVENTS.log(logging.INFO if error is None else logging.ERROR, "%s", event, extra=entry)

    def begin(self, run: str, rows: Sequence[RoundRow]) -> None:
        """The run starts, or goes on after the given rounds."""
        now, done = self.now(), max((row.round for row in rows), default=0)
        self._seconds = [row.seconds for row in rows]
        self._round_began = now
        self.status = RunStatus(
            run=run,
            method=self.config.method,
            state="waiting for clients",
            round=done,
            rounds=self.config.rounds,
            wanted=self.config.clients,
            flower_run=self.flower_run,
            host=platform.node(),
            pid=os.getpid(),
            started=moment(now),
            updated=moment(now),
            bytes_up=sum(row.bytes_up for row in rows),
            bytes_down=sum(row.bytes_down for row in rows),
            val_accuracy=next(
                (row.val_accuracy for row in reversed(rows) if row.val_accuracy is not None), None
            ),
        )
        if self.flower_run is not None:
            named = fields(Event.NAMED, run=run, flower_run=self.flower_run)
            LOGGER.info("this is run %s, which Flower calls %s", run, self.flower_run, extra=named)
        self.meters.begin(done, self.config.rounds)
        self._write()

    def seen(self, nodes: Collection[int]) -> None:
        """These nodes are online, and no others."""
        for node in nodes:
            known = self._clients.get(node)
            if known is None:
                self._clients[node] = ClientStatus(str(node), None, "online", last_contact=moment(self.now()))
            elif known.state == "offline":
                self._change(node, state="online")
        for node in self._clients.keys() - set(nodes):
            self._change(node, state="offline")
        strangers = [
            node for node, known in self._clients.items() if known.state == "offline" and known.name is None
        ]
        for node in strangers[:-MOST_STRANGERS]:
            del self._clients[node]
        self.beat()

    def beat(self) -> None:
        """Nothing happens, but the process is there."""
        self._write(BEAT_SECONDS)

    def asked(self, number: int, phase: str, nodes: Iterable[int], deadline: float) -> None:
        """An exchange of a round begins, which may last `deadline` seconds."""
        for node, known in self._clients.items():
            if known.state != "offline":
                self._change(node, state="online")
        for node in nodes:
            if node not in self._clients:
                self._clients[node] = ClientStatus(str(node), None, "online")
            self._change(node, state="asked", phase=phase, working_since=None, percent=None)
        now = self.now()
        self._move(
            state="training" if number <= self.config.rounds else "closing",
            current=number,
            phase=phase,
            since=moment(now),
            deadline=moment(now + timedelta(seconds=deadline)),
        )
        self._write()

    def sent(self, size: int) -> None:
        """So many bytes went to the nodes."""
        if self.status is not None:
            self._move(bytes_down=self.status.bytes_down + size)
        self._write(REPLY_SECONDS)

    def works(self, node: int, size: int, seconds: float | None, percent: int | None, left: float) -> None:
        """A node says that it is at work.

        Args:
            node: that said so.
            size: of what it sent, in bytes.
            seconds: since its work began; None if it is queued behind other work.
            percent: of the present piece of work.
            left: seconds until the exchange goes on without whoever has not answered.
        """
        now = self.now()
        since = None if seconds is None else moment(now - timedelta(seconds=seconds))
        state: ClientState = "asked" if since is None else "working"
        self._change(node, state=state, last_contact=moment(now), working_since=since, percent=percent)
        self._move(deadline=moment(now + timedelta(seconds=left)))
        self._received(size)

    def replied(self, node: int, size: int) -> None:
        """A node's message came; whether it is of use is seen at the end of the exchange."""
        self._change(
            node, state="answered", last_contact=moment(self.now()), working_since=None, percent=None
        )
        self._received(size)

    def _received(self, size: int) -> None:
        if self.status is not None:
            self._move(bytes_up=self.status.bytes_up + size)
        self._write(REPLY_SECONDS)

    def exchanged(
        self,
        number: int,
        phase: str,
        exchanged: Exchanged,
        troubles: Mapping[int, str],
        names: Mapping[int, str],
    ) -> None:
        """An exchange is over.

        Args:
            number: the round.
            phase: its name.
            exchanged: what came of it.
            troubles: why a node's answer is missing or of no use.
            names: the clients behind the nodes.
        """
        for node, name in names.items():
            self._name(node, name)
        now = moment(self.now())
        for node, why in troubles.items():
            known = self._clients.get(node)
            if known is None:
                # Its site has come back as another node, and answered.
                continue
            self._change(
                node,
                state="failed",
                failures=known.failures + 1,
                last_failure=why[:MOST_CHARACTERS],
                last_failure_at=now,
                working_since=None,
                percent=None,
            )
            self.meters.failure(names.get(node))
        self.meters.exchange(phase, exchanged.seconds, exchanged.bytes_up, exchanged.bytes_down)
        self._move(phase=None, since=None, deadline=None)
        self._write()
        entry = fields(
            Event.EXCHANGE,
            round=number,
            phase=phase,
            seconds=exchanged.seconds,
            bytes=exchanged.bytes_up + exchanged.bytes_down,
            clients=len(exchanged.replies),
        )
        EVENTS.info("exchange", extra=entry)

    def round_over(self, row: RoundRow) -> None:
        """A round is complete; its model is not scored yet."""
        self._seconds.append(row.seconds)
        self._round_began = self.now()
        self._move(round=row.round)
        self.meters.round_over(row)
        self._write()

    def scored(self, row: RoundRow) -> None:
        """The model of a round has been scored, or was not due to be."""
        if row.val_accuracy is not None:
            self._move(val_accuracy=row.val_accuracy)
        self.meters.scored(row)

    def _change(self, node: int, **values: Any) -> None:
        self._clients[node] = replace(self._clients[node], **values)

    def _name(self, node: int, name: str) -> None:
        """A site that comes back under another number stays one client."""
        for other, known in list(self._clients.items()):
            if known.name == name and other != node:
                del self._clients[other]
                self._change(
                    node,
                    failures=known.failures + self._clients[node].failures,
                    last_failure=known.last_failure,
                    last_failure_at=known.last_failure_at,
                )
        self._change(node, name=name)

    def _move(self, **values: Any) -> None:
        if self.status is not None:
            self.status = replace(self.status, **values)

    def _write(self, interval: float = 0.0) -> None:
        """Replace the status unless that was done within the interval."""
        counts = Counter(client.state for client in self._clients.values())
        self.meters.clients(counts)
        before = time.monotonic()
        if self.status is None or before - self._written < interval:
            return
        now, usual = self.now(), statistics.median(self._seconds) if self._seconds else None
        if usual is not None and not self.status.ended:
            left = (self.status.rounds - self.status.round) * usual
            spent = (now - self._round_began).total_seconds()
            self._move(expected_end=moment(now + timedelta(seconds=max(0.0, left - spent))))
        clients = sorted(self._clients.values(), key=lambda client: (client.name or "\uffff", client.node))
        self._move(updated=moment(now), seconds_per_round=usual, clients=tuple(clients))
        try:
            write_status(self.folder, self.status)
        except OSError as error:
            if not self._noted:
                self._noted = True
                self.progress.note(f"the status of the run cannot be written: {error}", fields(Event.STATUS))
        self._written = before
