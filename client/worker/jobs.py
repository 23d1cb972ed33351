"""What a worker has to do, does, and has done: a queue for one, from which others collect answers."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from fedtag.client.worker.frames import Frame
from fedtag.common.errors import WireError
from fedtag.common.wire.bounded_json import parsed
from fedtag.common.wire.serialised import Serialised
from fedtag.common.wire.signs import Collect, Sign, WorkState, percentage_of

MOST_FINISHED = 8
"""Answers that are kept for who asked; whoever leaves more behind has given up the oldest."""

FRESH_SECONDS = 60.0
"""After the work on it, in which an answer may leave for the first time as it was let out then."""

SUPERSEDED = "not begun: a later step of the run was asked for"

Key = tuple[str, str]
"""Digests of settings and instruction."""


@dataclass(eq=False)
class Job:
    """One thing to do.

    Args:
        request: what came, with a record if it is an instruction.
        began: when the work began, `time.monotonic()`; None while it is queued.
        answer: once it is there.
        percent: of the present piece of work.
        delivered: whether somebody has got the answer.
        asked: of an instruction, what is asked for its answer.
        kept: an answer that was there before, while it is decided whether it may still leave.
        taken: whether the answer was given out.
        finished: when the answer came, `time.monotonic()`.
    """

    request: Frame
    began: float | None = None
    answer: Frame | None = None
    percent: int | None = None
    delivered: bool = False
    asked: Collect | None = None
    kept: Frame | None = None
    taken: bool = False
    finished: float = 0.0


@dataclass(eq=False)
class Jobs:
    """Filled by threads that talk, emptied by the one that works.

    An answer is kept until it was delivered and other work begins, so that an instruction that comes again, or whose
    answer was lost on its way, gets the same bytes; an error is kept until it was delivered. An answer is given out
    once: before it goes again, or when it is old, the one that works decides anew whether it may.
    """

    _all: OrderedDict[Key, Job] = field(default_factory=OrderedDict)
    _queue: list[Job] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _present: Job | None = None
    _ended: bool = False
    _quiet_since: float = field(default_factory=time.monotonic)

    def put(self, request: Frame, key: Key | None = None, asked: Collect | None = None) -> Job:
        """Queue a request, unless that instruction is queued, in work or answered already.

        Whoever asks for a later step of a run has given up the earlier ones: those not begun are dropped.

        Args:
            request: what to do.
            key: of an instruction.
            asked: of an instruction, what will be asked for its answer.

        Raises:
            ConnectionError: the worker ends.
        """
        with self._changed:
            self._touch()
            if self._ended:
                raise ConnectionError("the worker ends")
            if key is not None and key in self._all:
                return self._all[key]
            job = Job(request, asked=asked)
            self._given_up(job)
            self._queue.append(job)
            if key is not None:
                self._all[key] = job
            return job

    def find(self, key: Key) -> Job | None:
        """The work on an instruction; None if it is unknown here."""
        with self._changed:
            self._touch()
            return self._all.get(key)

    def answer(self, job: Job, seconds: float | None) -> Frame | None:
        """What came of a job; None if there is nothing within so many seconds.

        Raises:
            ConnectionError: the worker ends, and this was not done.
        """
        with self._changed:
            until = None if seconds is None else time.monotonic() + seconds
            while True:
                left = None if until is None else until - time.monotonic()
                self._changed.wait_for(lambda: job.answer is not None or self._ended, left)
                if self._ended and (job.answer is None or _stale(job)):
                    raise ConnectionError("the worker ends")
                if job.answer is None:
                    return None
                if not _stale(job):
                    job.taken = True
                    return job.answer
                job.kept, job.answer, job.began, job.percent = job.answer, None, None, None
                job.delivered = False
                # It takes no time, and somebody waits.
                self._queue.insert(0, job)
                self._changed.notify_all()

    def next(self, quiet: Callable[[], float]) -> Job | None:
        """The job that is to be done now; None after so many seconds in which nothing was asked."""
        with self._changed:
            while not self._queue:
                left = self._quiet_since + quiet() - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            job = self._queue.pop(0)
            # Whoever has begun something else needs no answer a second time.
            if job.kept is None:
                self._drop(lambda one: one.delivered)
            job.began, self._present = time.monotonic(), job
            return job

    def finish(self, job: Job, answer: Frame) -> None:
        """Keep what came of the present job."""
        with self._changed:
            job.answer, self._present = answer, None
            job.kept, job.taken, job.finished = None, False, time.monotonic()
            finished = [key for key, one in self._all.items() if one.answer is not None]
            for key in finished[:-MOST_FINISHED]:
                del self._all[key]
            self._touch()

    def delivered(self, job: Job) -> None:
        """Somebody has got the answer."""
        with self._changed:
            job.delivered = True
            if job.answer is not None and job.answer.kind == "error":
                self._drop(lambda one: one is job)
            self._touch()

    @property
    def awaited(self) -> bool:
        """Whether there is an answer that nobody has got yet."""
        with self._changed:
            return any(not one.delivered for one in self._all.values())

    def forget(self) -> None:
        """Drop the answers that are kept."""
        with self._changed:
            self._drop(lambda one: one.answer is not None)

    def end(self) -> None:
        """Nothing more will be done; whoever waits is told."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def report(self, work: str, done: int, total: int) -> None:
        """How far the present piece of work is; see `client.context.progress.Report`."""
        job = self._present
        if job is not None:
            job.percent = percentage_of(done, total)

    def _given_up(self, later: Job) -> None:
        """Drop what nobody waits for any more now that a later step of the same run is asked for."""
        given_up = [job for job in self._queue if job.kept is None and _earlier(job.asked, later.asked)]
        for job in given_up:
            self._queue.remove(job)
            job.answer = Frame("error", {"text": SUPERSEDED, "reason": SUPERSEDED})
        self._drop(lambda one: one in given_up)

    def _drop(self, unwanted: Callable[[Job], bool]) -> None:
        """Keep some jobs no longer, which stay with whoever waits for them."""
        for key in [key for key, one in self._all.items() if unwanted(one)]:
            del self._all[key]

    def _touch(self) -> None:
        self._quiet_since = time.monotonic()
        self._changed.notify_all()


def _earlier(one: Collect | None, other: Collect | None) -> bool:
    """Whether one instruction is of an earlier step of the same run as another."""
    return one is not None and other is not None and one.run == other.run and one.step < other.step


def _stale(job: Job) -> bool:
    """Whether it must be decided anew if an answer may leave."""
    if job.answer is None or job.answer.kind != "reply":
        return False
    return job.taken or time.monotonic() - job.finished > FRESH_SECONDS


def sign_of(job: Job, asked: Collect) -> Sign:
    """What is said of a job whose answer is not there."""
    state: WorkState = "queued" if job.began is None else "working"
    seconds = 0.0 if job.began is None else round(time.monotonic() - job.began, 3)
    return Sign(**vars(asked), state=state, seconds=seconds, percent=job.percent)


def request_for(record: Serialised) -> Collect:
    """What will be asked for the answer to an instruction.

    Raises:
        WireError: it is none.
    """
    match parsed(record.header, "the header"):
        case {"run": str(run), "step": int(step), "round": int(number), "phase": str(phase)}:
            return Collect(run, step, number, phase, digest_of(record))
        case _:
            raise WireError("an instruction lacks its run, step, round or phase")


def digest_of(record: Serialised) -> str:
    """SHA-256 of an instruction, whose parts each come with their lengths."""
    digest = hashlib.sha256()
    parts = [
        record.header.encode(),
        record.tensors,
        (record.addresses or "").encode() or None,
        *record.bodies,
    ]
    for part in parts:
        digest.update(b"-" if part is None else f"{len(part)}:".encode())
        digest.update(part or b"")
    return digest.hexdigest()
