"""The worker process: it listens on the site's socket and carries out one message at a time.

The runs, and with them torch, are imported with the first message, so that a worker answers at once.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fedtag.client.run.refusal import reason
from fedtag.client.worker.errors import WorkerUnavailableError
from fedtag.client.worker.frames import Frame, receive, record_frame, record_of, send
from fedtag.client.worker.identity import Identity, settings_digest
from fedtag.client.worker.place import Place, check_peer, place_of
from fedtag.client.worker.settings import DEFAULT_IDLE
from fedtag.common.errors import FedtagError, WireError
from fedtag.common.logs import EVENTS, Event, fields, start_log
from fedtag.common.secure.lock import locked
from fedtag.common.wire.limits import MAX_TEXT
from fedtag.common.wording.visible import visible

if TYPE_CHECKING:
    from fedtag.client.worker.open_runs import OpenRuns

LOGGER = logging.getLogger("fedtag")

TALK_SECONDS = 30.0
"""How long a client may be silent in the middle of a frame."""
CLOSING_SECONDS = 20.0
"""Quiet after a run's closing exchange until the run is forgotten."""
PREDECESSOR_SECONDS = 30.0


class Service:
    """Serves the clients that connect, one after the other; the others wait in the socket's queue.

    Args:
        listener: a listening local socket.
        idle: seconds without a message after which the service ends.
        closing: seconds without a message after a run's closing exchange until the run is forgotten; if no
            other run is left, the service ends then.
    """

    def __init__(
        self, listener: socket.socket, idle: float = DEFAULT_IDLE, closing: float = CLOSING_SECONDS
    ) -> None:
        self.listener = listener
        self.idle = idle
        self.closing = closing
        self.identity = Identity.own()
        self._runs: OpenRuns | None = None
        self._going = True

    def run(self) -> None:
        """Serve until asked to stop, idle, or failed in a way that may have left the process unfit."""
        quiet_since = time.monotonic()
        while self._going:
            left = self._patience() - (time.monotonic() - quiet_since)
            ready, _, _ = select.select([self.listener], [], [], max(0.0, left))
            if ready:
                connection, _ = self.listener.accept()
                with connection:
                    self._serve(connection)
                quiet_since = time.monotonic()
            elif self._runs is not None and self._runs.some_closed:
                self._runs.drop(closed_only=True)
                self._going = len(self._runs) > 0
            else:
                LOGGER.info(
                    "no message for %g s", self.idle, extra=fields(Event.WORKER_ENDS, seconds=self.idle)
                )
                self._going = False

    def _patience(self) -> float:
        closed = self._runs is not None and self._runs.some_closed
        return min(self.idle, self.closing) if closed else self.idle

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(TALK_SECONDS)
        try:
            check_peer(connection, os.getuid())
            hello = _expected(receive(connection), "hello")
            send(connection, Frame("welcome", vars(self.identity)))
            # A client that runs other code leaves here, or asks this worker to stop.
            request = receive(connection)
            answer = self._answer(request, hello)
            send(connection, answer)
        except ConnectionError:
            LOGGER.info("a client went away")
        except (OSError, WireError) as error:
            LOGGER.warning("a client was refused: %s", error, extra=fields(Event.WORKER_REFUSED))

    def _answer(self, request: Frame, hello: Frame) -> Frame:
        match request.kind:
            case "stop":
                self._going = False
                return Frame("stopping")
            case "release":
                if self._runs is not None:
                    self._runs.drop()
                return Frame("released")
            case "instruct":
                return self._carried_out(request, hello)
        raise WireError(f"a request of kind '{request.kind[:40]}' is unknown")

    def _carried_out(self, request: Frame, hello: Frame) -> Frame:
        try:
            if Identity.told(hello) != self.identity:
                raise WireError("this worker runs another fedtag: ask it to stop, and start one anew")
            run_config, node = request.table("run_config"), request.table("node_config")
            if settings_digest(run_config, node) != hello.text("settings"):
                raise WireError("the settings are not those that were announced")
            self.idle = float(request.fields.get("idle", self.idle))

            from fedtag.client.worker.open_runs import OpenRuns
            from fedtag.common.wire.serialisation import instruction_of, serialised

            self._runs = self._runs or OpenRuns()
            instruction, start = instruction_of(record_of(request)), time.monotonic()
            reply = self._runs.respond(instruction, run_config, node)
            event = fields(
                Event.INSTRUCTION,
                run=instruction.run,
                round=instruction.round,
                phase=instruction.phase,
                seconds=time.monotonic() - start,
            )
            EVENTS.info("carried out", extra=event)
            return record_frame("reply", serialised(reply), {})
        except Exception as error:
            expected = isinstance(error, FedtagError)
            LOGGER.error("%s", error, exc_info=not expected, extra=fields(Event.INSTRUCTION_FAILED))
            # Memory that ran out or a device that failed may leave a process that can compute no more.
            self._going = expected
            return Frame("error", {"text": visible(str(error))[:MAX_TEXT], "reason": reason(error)})


def _expected(frame: Frame, kind: str) -> Frame:
    if frame.kind != kind:
        raise WireError(f"a frame '{kind}' is due, not '{frame.kind[:40]}'")
    return frame


def listening(place: Place) -> socket.socket:
    """The worker's socket, for its user only; one that an earlier worker left behind is replaced."""
    place.socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(place.socket))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.listen(64)
    return listener


def serve(place: Place, idle: float) -> int:
    """Become the site's worker; the process that was started ends as soon as the worker listens.

    Args:
        place: of the site.
        idle: see `Service`.

    Returns:
        An exit code; 1 where another worker lives, or no socket can be made.
    """
    try:
        with locked(place.alive, PREDECESSOR_SECONDS, WorkerUnavailableError):
            listener = listening(place)
            # The child goes on with the lock; that the parent has ended tells that the socket is there.
            if os.fork():
                os._exit(0)
            signal.signal(signal.SIGTERM, _leave)
            try:
                listens, ends = (
                    fields(event, pid=os.getpid()) for event in (Event.WORKER_LISTENS, Event.WORKER_ENDS)
                )
                LOGGER.info("worker %d listens at %s", os.getpid(), place.socket, extra=listens)
                Service(listener, idle).run()
            finally:
                place.socket.unlink(missing_ok=True)
                listener.close()
                LOGGER.info("worker %d ends", os.getpid(), extra=ends)
    except (WorkerUnavailableError, OSError) as error:
        LOGGER.error("no worker: %s", error, extra=fields(Event.WORKER_FAILED))
        return 1
    return 0


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Run a worker: WORKSPACE IDLE."""
    workspace, idle = arguments
    start_log("%(asctime)s %(levelname)s %(message)s")
    return serve(place_of(Path(workspace)), float(idle))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
