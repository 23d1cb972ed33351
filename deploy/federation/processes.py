"""Programs that are stopped together with everything that they started.

A process group does not hold Flower's and Ray's processes together: a SuperLink gives its executor a
session of its own, a SuperNode leaves its executor behind when it ends, Ray's workers rename themselves.
Each program therefore carries a mark in its environment, which every descendant inherits, and its family
is all that carry the mark plus all their descendants.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from fedtag.common.errors import DeploymentError

_MARK = "FEDTAG_PROCESS_FAMILY"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0


class Program:
    """A running program, its log and its family.

    Args:
        name: what messages call it.
        command: the program and its arguments.
        environment: the whole environment.
        folder: its working directory.
        log: the file to which stdout and stderr are appended; None gives both to `output`.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._mark = secrets.token_hex(16)
        self._known: set[psutil.Process] = set()
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(log.open("ab")) if log is not None else subprocess.PIPE
            try:
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=subprocess.STDOUT,
                    env={**environment, _MARK: self._mark},
                    cwd=folder,
                    # Ctrl-C on the terminal reaches the launcher only, which then stops all in order.
                    start_new_session=True,
                )
            except OSError as error:
                raise DeploymentError(
                    f"{name} did not start ({error}): install fedtag with its dependencies into this Python."
                ) from error

    @property
    def exit_code(self) -> int | None:
        """None while the program runs."""
        return self._process.poll()

    def output(self) -> Iterable[str]:
        """The lines of a program without a log file, as they come, until it closes its output."""
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            yield without_colours(line.decode("utf-8", errors="replace").rstrip("\n"))

    def close(self) -> int:
        """Wait for the end of a program whose output was read; returns its exit code."""
        code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the log, without colours."""
        if self.log is None:
            return ""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(without_colours(text).splitlines()[-lines:])

    def family(self) -> set[psutil.Process]:
        """The living processes that descend from the program, however detached, itself included."""
        found = {process for process in psutil.process_iter() if self._carries_mark(process)}
        if self._process.poll() is None:
            found.add(psutil.Process(self._process.pid))
        self._known |= found
        for process in found:
            with contextlib.suppress(psutil.Error):
                self._known |= set(process.children(recursive=True))
        self._known = {process for process in self._known if _is_alive(process)}
        return set(self._known)

    def terminate(self) -> None:
        """Ask the program, not its family, to end."""
        if self._process.poll() is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the whole family at once, as a power cut does.

        Raises:
            DeploymentError: a process outlives SIGKILL.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while family := self.family():
            if time.monotonic() > deadline:
                left = ", ".join(str(process.pid) for process in family)
                raise DeploymentError(f"processes {left} of {self.name} cannot be killed: kill them by hand.")
            for process in family:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.poll()
            time.sleep(_POLL_SECONDS)
        self.close()

    def _carries_mark(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(_MARK) == self._mark
        except (psutil.Error, OSError):
            return False


class ProgramGroup:
    """The programs of one federation; leaving the context stops all of them and their families.

    Args:
        folder: the working directory of the programs; their logs lie in its folder `logs`.
        grace_seconds: what the programs have to end by themselves before they are killed.
    """

    def __init__(self, folder: Path, grace_seconds: float = 4.0) -> None:
        self._folder = folder
        self._grace_seconds = grace_seconds
        self._programs: list[Program] = []

    def __enter__(self) -> Self:
        (self._folder / "logs").mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Program:
        """Start a program with a log file named after it."""
        log = self._folder / "logs" / f"{name}.log"
        program = Program(name, command, environment, self._folder, log)
        self._programs.append(program)
        return program

    def stop(self) -> None:
        """End all programs, the last started first: politely, then the rest of each family by force."""
        with contextlib.ExitStack() as stack:
            # Runs even where a second Ctrl-C interrupts the polite part.
            for program in self._programs:
                stack.callback(program.kill)
            for program in self._programs:
                # Remembers children before their parents end: a renamed one cannot be told apart later.
                program.family()
            for program in reversed(self._programs):
                program.terminate()
            deadline = time.monotonic() + self._grace_seconds
            while time.monotonic() < deadline and any(p.exit_code is None for p in self._programs):
                time.sleep(_POLL_SECONDS)
        self._programs.clear()


def wait_until_ready(programs: Mapping[Program, Callable[[], bool]], seconds: float) -> None:
    """Wait until every program fulfils its condition.

    Raises:
        DeploymentError: a program ended, or the time passed; the message carries the end of its log.
    """
    deadline = time.monotonic() + seconds
    waiting = dict(programs)
    while waiting:
        for program, ready in list(waiting.items()):
            code = program.exit_code
            if code is not None:
                raise DeploymentError(
                    f"{program.name} ended with code {code} while it started; its log says why "
                    f"({program.log}):\n{program.log_tail()}"
                )
            if ready():
                del waiting[program]
            elif time.monotonic() > deadline:
                raise DeploymentError(
                    f"{program.name} did not answer within {seconds:g} s; free the machine or allow more time "
                    f"({program.log}):\n{program.log_tail()}"
                )
        time.sleep(_POLL_SECONDS)


def without_colours(text: str) -> str:
    """Text without the escape sequences that colour it on a terminal."""
    return _COLOUR.sub("", text)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
