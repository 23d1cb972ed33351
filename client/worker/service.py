"""The worker process: it listens on the site's socket and carries out one message at a time.

The main thread works; each client has a thread that talks, so that the site can say that it works. The runs, and with
them torch, are imported with the first message, so that a worker answers at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fedtag.client.run.refusal import reason
from fedtag.client.worker.errors import WorkerUnavailableError
from fedtag.client.worker.frames import MAX_BYTES, Frame, receive, record_frame, record_of, send
from fedtag.client.worker.identity import Identity, settings_digest
from fedtag.client.worker.jobs import Job, Jobs, digest_of, request_for, sign_of
from fedtag.client.worker.place import Place, check_peer, place_of
from fedtag.client.worker.settings import DEFAULT_IDLE, DEFAULT_PATIENCE
from fedtag.common.errors import CapacityError, FedtagError, WireError
from fedtag.common.logs import EVENTS, Event, fields, start_log
from fedtag.common.secure.lock import locked
from fedtag.common.wire.limits import MAX_TEXT
from fedtag.common.wire.signs import Sign, collect_of, lost, serialised_sign
from fedtag.common.wording.visible import visible

if TYPE_CHECKING:
    from fedtag.client.worker.open_runs import OpenRuns

LOGGER = logging.getLogger("fedtag")

TALK_SECONDS = 30.0
"""How long a client may be silent in the middle of a frame."""
CLOSING_SECONDS = 20.0
"""Quiet after a run's closing exchange until the run is forgotten."""
PREDECESSOR_SECONDS = 30.0
AWAITED_SECONDS = 60.0
"""How long the service outlives the work on an answer that nobody has got yet, however short `idle` is."""


class Service:
    """Serves the clients that connect; work is done one after the other, by the thread that calls `run`.

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
        self.jobs = Jobs()
        self._runs: OpenRuns | None = None
        self._going = True
        self._talking: set[threading.Thread] = set()

    def run(self) -> None:
        """Serve until asked to stop, idle, or failed in a way that may have left the process unfit."""
        listening = threading.Thread(target=self._listen, daemon=True)
        listening.start()
        try:
            while self._going:
                self._turn()
        finally:
            self.jobs.end()
            # Wakes the thread that accepts.
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
        # Who waits for an answer that is there gets it.
        for thread in [listening, *self._talking]:
            thread.join(TALK_SECONDS)

    def _turn(self) -> None:
        """Do what is due next, or what follows from silence."""
        job = self.jobs.next(self._quiet)
        if job is not None:
            self.jobs.finish(job, self._done(job))
        elif self._over and self._runs is not None:
            self._runs.drop(closed_only=True)
            self._going = len(self._runs) > 0
        else:
            LOGGER.info("no message for %g s", self.idle, extra=fields(Event.WORKER_ENDS, seconds=self.idle))
            self._going = False

    def _quiet(self) -> float:
        """Seconds without a message after which something follows from it."""
        if self._over:
            return min(self.idle, self.closing)
        return max(self.idle, AWAITED_SECONDS) if self.jobs.awaited else self.idle

    @property
    def _over(self) -> bool:
        """Whether a run is over, and the server has all answers."""
        return self._runs is not None and self._runs.some_closed and not self.jobs.awaited

    def _done(self, job: Job) -> Frame:
        match job.request.kind:
            case "stop":
                self._going = False
                return Frame("stopping")
            case "release":
                self.jobs.forget()
                if self._runs is not None:
                    self._runs.drop()
                return Frame("released")
        return self._carried_out(job)

    def _carried_out(self, job: Job) -> Frame:
        request = job.request
        try:
            from fedtag.client.worker.open_runs import OpenRuns
            from fedtag.common.wire.serialisation import instruction_of, reply_of, serialised

            self._runs = self._runs or OpenRuns(self.jobs.report)
            instruction, start = instruction_of(record_of(request)), time.monotonic()
            tables = request.table("run_config"), request.table("node_config")
            if job.kept is not None:
                self._runs.admit_kept(
                    instruction, reply_of(record_of(job.kept), float(MAX_BYTES)), *tables, sent=job.taken
                )
                return job.kept
            reply = self._runs.respond(instruction, *tables)
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
            # Memory that ran out or a device that failed may leave a process that can compute no more.
            self._going = isinstance(error, FedtagError) and not isinstance(error, CapacityError)
            return _failure(error)

    def _listen(self) -> None:
        # Ends with the socket.
        with contextlib.suppress(OSError):
            while self._going:
                connection, _ = self.listener.accept()
                self._talking = {thread for thread in self._talking if thread.is_alive()}
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._talking.add(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(TALK_SECONDS)
            try:
                check_peer(connection, os.getuid())
                hello = _expected(receive(connection), "hello")
                send(connection, Frame("welcome", vars(self.identity)))
                # A client that runs other code leaves here, or asks this worker to stop.
                request = receive(connection)
                if request.kind in ("stop", "release"):
                    job = self.jobs.put(Frame(request.kind))
                    send(connection, self.jobs.answer(job, None) or Frame("stopping"))
                else:
                    self._instructed(connection, _expected(request, "instruct"), hello)
            except ConnectionError:
                LOGGER.info("a client went away")
            except (OSError, WireError) as error:
                LOGGER.warning("a client was refused: %s", error, extra=fields(Event.WORKER_REFUSED))

    def _instructed(self, connection: socket.socket, request: Frame, hello: Frame) -> None:
        """Send the answer to an instruction, or if it takes long, a sign that it is in work."""
        try:
            job, answer = self._answer(request, hello)
        except FedtagError as error:
            job, answer = None, _failure(error)
        send(connection, answer)
        if job is not None:
            self.jobs.delivered(job)

    def _answer(self, request: Frame, hello: Frame) -> tuple[Job | None, Frame]:
        """What is answered, and the job that is over with it."""
        if Identity.told(hello) != self.identity:
            raise WireError("this worker runs another fedtag: ask it to stop, and start one anew")
        settings = settings_digest(request.table("run_config"), request.table("node_config"))
        if settings != hello.text("settings"):
            raise WireError("the settings are not those that were announced")
        self.idle = float(request.fields.get("idle", self.idle))
        record = record_of(request)
        asked = collect_of(record)
        if asked is None:
            job: Job | None = self.jobs.put(request, (settings, digest_of(record)), request_for(record))
        else:
            job = self.jobs.find((settings, asked.job))
        if job is None:
            assert asked is not None
            return None, _sign(lost(asked))
        answer = self.jobs.answer(job, float(request.fields.get("patience", DEFAULT_PATIENCE)))
        if answer is None:
            return None, _sign(sign_of(job, asked or request_for(record)))
        return job, answer


def _sign(sign: Sign) -> Frame:
    return record_frame("reply", serialised_sign(sign), {})


def _failure(error: Exception) -> Frame:
    """What a client is told of an error, which this worker's log has whole."""
    LOGGER.error(
        "%s",
        error,
        exc_info=None if isinstance(error, FedtagError) else error,
        extra=fields(Event.INSTRUCTION_FAILED),
    )
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
