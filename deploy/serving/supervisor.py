"""Programs that belong together, kept running: one that ends is started again, one that is silent is ended first."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psutil

from fedtag.common.errors import DeploymentError
from fedtag.common.logs import Event, fields
from fedtag.deploy.executor.beat import Sign

LOGGER = logging.getLogger("fedtag")
SILENCE_SECONDS = 10.0
"""After so long without a sign of life a program is ended and started again."""
START_SECONDS = 60.0
"""What a program may take to load what it needs; longer while it gets on: on a crowded machine, a start that is broken
off and begun anew makes it more crowded still. So much of a processor's time is never needed."""
LONGEST_START_SECONDS = 600.0
"""However it gets on: what hangs may still take a little of a processor."""
LONGEST_PAUSE = 30.0
STEADY_SECONDS = 60.0
"""A program that ran for so long is started again as promptly as at first."""
TICK_SECONDS = 0.1
END_SECONDS = 10.0
ENDING = {signal.SIGTERM, signal.SIGINT}
_DIE_WITH_PARENT = 1
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Part:
    """A program that is kept running.

    Args:
        name: what messages call it.
        command: the program and its arguments.
        environment: the whole environment.
        beats: whether it takes `--beat DESCRIPTOR` and then tells what it does.
        pause: seconds until it is started again the first time; doubled each time.
        passes_on: whether it still has to pass on what is finished, when the others have ended.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    beats: bool = True
    pause: float = 0.5
    passes_on: bool = False


@dataclass
class Watched:
    """A program with what is known of it."""

    part: Part
    process: subprocess.Popen[bytes] | None = None
    sign: Sign = field(default_factory=lambda: Sign("starting"))
    started: float = 0.0
    heard: float = 0.0
    """When it last told something, `time.monotonic()`; 0 before."""
    due: float = 0.0
    restarts: int = 0
    ended: str = ""
    """How it ended last."""
    spent: float = 0.0
    """Seconds of a processor that it had taken when it was last seen to get on with its start."""
    got_on: float = 0.0
    groups: set[int] = field(default_factory=set)
    """Of the programs that were started, in which tasks may outlive their executor."""
    _pipe: int | None = None
    _rest: bytes = b""

    def start(self) -> None:
        """Start the program.

        Raises:
            DeploymentError: there is no such program.
        """
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        beat = ["--beat", str(writer)] if self.part.beats else []
        try:
            self.process = subprocess.Popen(
                [*self.part.command, *beat],
                stdin=subprocess.DEVNULL,
                env=dict(self.part.environment),
                pass_fds=[writer] if beat else [],
                # A group of its own: what is left of it can be ended, and Ctrl-C reaches the supervisor alone.
                start_new_session=True,
                preexec_fn=_with_parent,
            )
        except OSError as error:
            os.close(reader)
            raise DeploymentError(
                f"{self.part.name} did not start ({error}): install fedtag with its dependencies"
            ) from error
        finally:
            os.close(writer)
        self._close_pipe()
        self.groups.add(self.process.pid)
        self._pipe, self._rest = reader, b""
        self.started, self.heard, self.sign = time.monotonic(), 0.0, Sign("starting")
        self.spent, self.got_on = 0.0, self.started

    def hear(self) -> None:
        """Read what the program has told."""
        if self._pipe is None:
            return
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._pipe, 2**16):
                *lines, self._rest = (self._rest + piece).split(b"\n")
                if lines:
                    self.sign, self.heard = Sign(**json.loads(lines[-1])), time.monotonic()

    @property
    def silent(self) -> bool:
        """Whether a program that should tell what it does has told nothing for too long."""
        if not self.part.beats or self.process is None:
            return False
        if self.sign.state == "starting":
            return time.monotonic() - self.started > START_SECONDS and self._stands_still()
        return time.monotonic() - self.heard > SILENCE_SECONDS

    def _stands_still(self) -> bool:
        """Whether a program that is starting has taken no processor for a while, or more than any start takes."""
        assert self.process is not None
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return False
        if (spent := times.user + times.system) > self.spent:
            self.spent, self.got_on = spent, time.monotonic()
        now = time.monotonic()
        long = now - self.started > LONGEST_START_SECONDS
        return long or spent > START_SECONDS or now - self.got_on > SILENCE_SECONDS

    def kill(self) -> None:
        """End all that is left of the program and of those before it."""
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def forget_empty_groups(self) -> None:
        """Numbers of groups without a process may come to mean others."""
        for group in list(self.groups):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                self.groups.discard(group)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@contextlib.contextmanager
def ending_held() -> Iterator[None]:
    """Hold signals to end back, for a loop that waits for them; threads that start within take none either."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Supervisor:
    """Keeps programs running until it is told to end.

    Args:
        parts: in the order in which they start; they end in the reverse order, one after another.
        on_tick: called after each look.
    """

    def __init__(self, parts: Sequence[Part], on_tick: Callable[[], None] = lambda: None) -> None:
        self.watched = [Watched(part) for part in parts]
        self._on_tick = on_tick

    def run(self) -> None:
        """Start all, and look after them until SIGTERM or SIGINT.

        Raises:
            DeploymentError: a program cannot be started.
        """
        with ending_held():
            try:
                for one in self.watched:
                    one.start()
                while signal.sigtimedwait(ENDING, TICK_SECONDS) is None:
                    for one in self.watched:
                        self._look(one)
                    self._on_tick()
            finally:
                self._end()

    def _look(self, one: Watched) -> None:
        now = time.monotonic()
        if one.process is None:
            if now >= one.due:
                self._restart(one)
            return
        one.hear()
        if one.silent:
            self._lost(one, f"told nothing for too long while it was {one.sign.state}")
        elif (code := one.process.poll()) is not None:
            self._lost(one, f"was ended by signal {-code}" if code < 0 else f"ended with code {code}")

    def _restart(self, one: Watched) -> None:
        """Start a program again; what is missing for it, such as memory, may come back."""
        one.forget_empty_groups()
        try:
            one.start()
        except DeploymentError as error:
            pause = self._pause(one)
            LOGGER.error("%s; it is tried again in %g s", error, pause, extra=fields(Event.PROCESS_RESTARTED))
            one.due = time.monotonic() + pause

    def _pause(self, one: Watched) -> float:
        pause = min(LONGEST_PAUSE, one.part.pause * 2.0**one.restarts)
        one.restarts += 1
        return float(pause)

    def _lost(self, one: Watched, how: str) -> None:
        """Note that a program is gone, and when it is started again."""
        assert one.process is not None
        now = time.monotonic()
        if now - one.started > STEADY_SECONDS:
            one.restarts = 0
        pause = self._pause(one)
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        LOGGER.error(
            "%s %s; it is started again in %g s",
            one.part.name,
            how,
            pause,
            extra=fields(Event.PROCESS_RESTARTED),
        )
        one.ended, one.due, one.process = how, now + pause, None
        one.sign = Sign("waiting", f"{how}; starts again")

    def _end(self) -> None:
        """End all: each politely, in the reverse order of their starts, then by force."""
        for one in reversed(self.watched):
            if one.process is not None:
                self._until_idle(one)
                one.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    one.process.wait(END_SECONDS)
        for one in self.watched:
            one.kill()
            if one.process is not None:
                one.process.wait()

    def _until_idle(self, one: Watched) -> None:
        """Let a program that passes on what another has finished do so, before it is asked to end."""
        deadline = time.monotonic() + END_SECONDS
        while one.part.passes_on and one.process is not None and one.process.poll() is None:
            one.hear()
            if one.sign.state != "working" or time.monotonic() > deadline:
                return
            time.sleep(TICK_SECONDS)


def _with_parent() -> None:
    """A program whose supervisor is killed ends as if it had been told to."""
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
