"""A supervisor with real programs: small scripts that end, fall silent, or go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from fedtag.common.errors import DeploymentError
from fedtag.deploy.serving.supervisor import Part, Supervisor

PROGRAM = """
import json, os, sys, time
from pathlib import Path
from fedtag.deploy.executor.beat import Beat, Sign

place, behaviour = Path(sys.argv[1]), sys.argv[2]
beat = Beat(int(sys.argv[4])) if len(sys.argv) > 4 else Beat(None)
with place.open("a") as file:
    file.write(f"{os.getpid()}\\n")
beat.tell(Sign("starting"))
if behaviour == "ends":
    sys.exit(3)
while behaviour == "hangs":
    time.sleep(0.1)
while behaviour == "spins":
    pass
started = time.monotonic()
while behaviour == "slow" and time.monotonic() - started < 6:
    until = time.thread_time() + 0.02
    while time.thread_time() < until:
        pass
    time.sleep(0.2)
beat.tell(Sign("idle"))
while behaviour == "silent":
    time.sleep(0.1)
while True:
    beat.tell(Sign("working", "run 1"))
    time.sleep(0.1)
"""
SUPERVISOR = """
import sys
from pathlib import Path
from fedtag.deploy.serving import supervisor
from fedtag.deploy.serving.supervisor import Part, Supervisor
import os

supervisor.SILENCE_SECONDS, supervisor.START_SECONDS = 1.0, float(os.environ.get("START", 60))
supervisor.LONGEST_START_SECONDS = float(os.environ.get("LONGEST", 600))
folder, *behaviours = sys.argv[1:]
parts = [
    Part(name, (sys.executable, f"{folder}/program.py", f"{folder}/{name}.pids", name), dict(os.environ), pause=0.1)
    for name in behaviours
]
Supervisor(parts).run()
"""


@contextmanager
def supervised(folder: Path, *behaviours: str) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of programs, ended with all that it started."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "supervisor.py").write_text(SUPERVISOR)
    command = [sys.executable, str(folder / "supervisor.py"), str(folder), *behaviours]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for behaviour in behaviours:
            for pid in pids(folder, behaviour):
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)


def pids(folder: Path, behaviour: str) -> list[int]:
    path = folder / f"{behaviour}.pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(folder: Path, behaviour: str, count: int, seconds: float = 60) -> list[int]:
    deadline = time.monotonic() + seconds
    while len(found := pids(folder, behaviour)) < count:
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.05)
    return found


def test_what_ends_or_falls_silent_is_started_again_and_the_others_stay(tmp_path: Path) -> None:
    with supervised(tmp_path, "steady", "ends", "silent") as process:
        wait_for(tmp_path, "ends", 2)
        (first, second) = wait_for(tmp_path, "silent", 2)[:2]
        (steady,) = pids(tmp_path, "steady")
        assert not alive(first)
        os.kill(steady, signal.SIGKILL)
        assert wait_for(tmp_path, "steady", 2)[0] == steady
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not any(alive(pid) for name in ("steady", "silent") for pid in pids(tmp_path, name))
    log = (tmp_path / "log").read_text()
    assert "ends ended with code 3; it is started again in 0.1 s" in log
    assert "ends ended with code 3; it is started again in 0.2 s" in log
    assert "silent told nothing for too long while it was idle" in log
    assert "steady was ended by signal 9" in log
    assert second


def test_a_start_that_gets_on_is_not_broken_off_and_one_that_does_not_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow one works a tenth of the time, as on a machine with ten times as much to do as it can."""
    monkeypatch.setenv("START", "2")
    with supervised(tmp_path, "slow", "hangs", "spins"):
        wait_for(tmp_path, "hangs", 2)
        wait_for(tmp_path, "spins", 2)
        time.sleep(4)
        assert len(pids(tmp_path, "slow")) == 1
    log = (tmp_path / "log").read_text()
    assert "hangs told nothing for too long while it was starting" in log
    assert "spins told nothing for too long while it was starting" in log
    assert "slow" not in log


def test_a_start_has_an_end_however_it_gets_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("START", "1")
    monkeypatch.setenv("LONGEST", "3")
    with supervised(tmp_path, "slow"):
        wait_for(tmp_path, "slow", 2)
    assert "slow told nothing for too long while it was starting" in (tmp_path / "log").read_text()


def test_programs_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, "steady") as process:
        (steady,) = wait_for(tmp_path, "steady", 1)
        process.kill()
        deadline = time.monotonic() + 20
        while alive(steady) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(steady)


def test_a_program_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match=r"absent did not start .*install fedtag"):
        Supervisor([Part("absent", (str(tmp_path / "absent"),), {}, beats=False)]).run()
