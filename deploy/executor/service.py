"""The executor: `python -m fedtag.deploy.executor.service SIDE --runtime HOST:PORT`.

It takes tasks from a SuperLink or a SuperNode that runs with `--isolation process`, and carries out each in a process
forked from this one, which has everything loaded, holds no thread and touches no device.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
from flwr.proto.task_pb2 import Task

from fedtag.common.logs import Event, fields, start_log
from fedtag.deploy.executor.beat import Beat, Pace, Sign
from fedtag.deploy.executor.child import CAUGHT, Child, fork
from fedtag.deploy.executor.flower import is_known
from fedtag.deploy.executor.runtime import Runtime, acquired, end_task
from fedtag.deploy.executor.side import Side

LOGGER = logging.getLogger("fedtag")
SHORTEST, LONGEST = 0.02, 1.0
GRACE_SECONDS = 8.0
"""Until what is in work when the executor is to end is handed back; services allow 30 s."""
ATTEMPTS = 20


class Executor:
    """Takes tasks and has them carried out until it is told to end.

    Args:
        side: of the federation.
        runtime: where its tasks come from.
        beat: told what it does.
        name: of the site, for what is answered in place of a process that died; empty at the link.
    """

    def __init__(self, side: Side, runtime: Runtime, beat: Beat, name: str = "") -> None:
        self.side = side
        self.runtime = runtime
        self.beat = beat
        self.name = name
        self._children: dict[int, Child] = {}
        self._pace = Pace(SHORTEST, LONGEST)
        self._lacking: str | None = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT; what is in work then is finished, or handed back after a grace."""
        signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
        client = self.runtime.acquiring()
        # What is loaded stays: children share it, and collect nothing of it.
        gc.collect()
        gc.freeze()
        ending = False
        while not ending:
            try:
                found = acquired(client, [self.side.kind])
            except (httpx.HTTPError, OSError) as error:
                self._wait_for(error)
                found = None
            else:
                self._lacking = None
            if found is not None:
                self._launch(*found)
            self._tell()
            ending = self._pause(self._pace.pause)
        self._end()
        client.close()

    def _launch(self, task: Task, token: str) -> None:
        try:
            child = fork(task, token, lambda: self.side.carry_out(self.runtime, token))
        except OSError as error:
            # Nobody has taken the task: it is given to an executor again when its token runs out.
            LOGGER.error("no process for a task (%s)", error, extra=fields(Event.PROCESS_LOST))
            return
        self._children[child.pid] = child
        self._pace.worked()

    def _pause(self, seconds: float) -> bool:
        """Wait, and bury children as they die; returns whether the executor is to end."""
        caught = signal.sigtimedwait(CAUGHT, seconds)
        self._bury()
        return caught is not None and caught.si_signo != signal.SIGCHLD

    def _bury(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            child, code = self._children.pop(pid), os.waitstatus_to_exitcode(status)
            self._pace.worked()
            if code:
                self._answer(child, code)

    def _answer(self, child: Child, code: int, handed_back: bool = False) -> None:
        """Tell who waits for a task that its process is gone."""
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        what = "message" if self.side.graceful else "run"
        why = (
            "the site stops: the message is handed back"
            if handed_back
            else (f"the process that carried out the {what} {how}; signal 9 is often a lack of memory")
        )
        LOGGER.error("%s", why, extra=fields(Event.PROCESS_LOST, code=code if code >= 0 else 128 - code))
        reason = f"{self.name}: {why}" if self.name else why
        if self.side.graceful and not is_known():
            # Flower's own SuperNode answers when the task's token runs out, and never once the task is over.
            return
        for attempt in range(ATTEMPTS):
            self._tell()
            try:
                client = self.runtime.working(child.token, patient=False)
                end_task(client, reason)
                client.close()
                return
            except httpx.HTTPStatusError as error:
                if error.response.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                    # The task is over, or known no more.
                    return
            except (httpx.HTTPError, OSError) as error:
                self._wait_for(error)
            time.sleep(min(1.0, 0.1 * 2**attempt))

    def _wait_for(self, error: Exception) -> None:
        """Say once that tasks cannot be had, and why."""
        lacking = f"{type(error).__name__}: {error}".splitlines()[0]
        if lacking != self._lacking:
            LOGGER.warning(
                "no tasks can be had of %s yet (%s); it is asked again", self.runtime.address, lacking,
                extra=fields(Event.TASKS_AWAITED, error=type(error).__name__),
            )  # fmt: skip
        self._lacking = lacking

    def _tell(self) -> None:
        if self._lacking is not None:
            self.beat.tell(Sign("waiting", self._lacking))
        elif self._children:
            oldest = min(self._children.values(), key=lambda child: child.since)
            self.beat.tell(
                Sign("working", f"run {oldest.task.run_id}, {time.monotonic() - oldest.since:.0f} s")
            )
        else:
            self.beat.tell(Sign("idle"))

    def _end(self) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        if not self.side.graceful:
            self._signal(signal.SIGTERM)
        while self._children and (left := deadline - time.monotonic()) > 0:
            self._tell()
            signal.sigtimedwait({signal.SIGCHLD}, min(left, 1.0))
            self._bury()
        children = list(self._children.values())
        self._signal(signal.SIGKILL)
        for child in children:
            os.waitpid(child.pid, 0)
            self._answer(child, -signal.SIGKILL, handed_back=True)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, load what the side needs, and serve."""
    parser = argparse.ArgumentParser(description="Carry out the tasks of a SuperLink or a SuperNode.")
    parser.add_argument("side", choices=["site", "link"])
    parser.add_argument("--runtime", required=True, metavar="HOST:PORT")
    parser.add_argument("--authority", type=Path, help="certificate of the Runtime API; in clear without")
    parser.add_argument("--secret", type=Path, help="file by which the Runtime API knows this executor")
    parser.add_argument("--name", default="", help="of the site")
    parser.add_argument("--beat", type=int, help="descriptor for signs of life")
    given = parser.parse_args(arguments)
    start_log()
    beat = Beat(given.beat)
    beat.tell(Sign("starting"))
    side: Side = importlib.import_module(f"fedtag.deploy.executor.{given.side}_side").SIDE
    secret = None if given.secret is None else given.secret.read_bytes()
    Executor(side, Runtime(given.runtime, given.authority, secret), beat, given.name).run()


if __name__ == "__main__":
    main()
