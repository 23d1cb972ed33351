"""A run is found, and whether its process is there is found out, from outside."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from fedtag.common.errors import RunError
from fedtag.deploy.terminal.sighting import SILENT_SECONDS, look, newest_run
from fedtag.runs.process import lives
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import RunStatus, moment, write_status

NOW = datetime.now(UTC)


def status(state: str = "training", **changed: object) -> RunStatus:
    began = datetime.fromtimestamp(psutil.Process().create_time(), UTC) + timedelta(seconds=1)
    usual = RunStatus(
        *("0af", "fedavg", state, 1, 3, 2, platform.node(), os.getpid(), moment(began), moment(NOW)),  # type: ignore[arg-type]
    )
    return replace(usual, **changed)  # type: ignore[arg-type]


def run(folder: Path, written: RunStatus | None, placed: bool = False) -> Path:
    directory = RunDirectory(folder)
    directory.write_config({"method": "fedavg", "rounds": 3, "clients": 2})
    if placed:
        directory.write_places({"data.source": "/somewhere"})
    directory.append_round(RoundRow(1, 1.0, 0.5, 0.5, 0.5, 2.0, {}, 100, 50, 2, 0))
    if written is not None:
        write_status(folder, written)
    return folder


@pytest.fixture(scope="module")
def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    seen = look(run(tmp_path / "run", status()))
    assert (seen.going, seen.trouble) == (True, None)


def test_a_killed_process_is_noticed_and_what_helps_is_said(tmp_path: Path, dead_process: int) -> None:
    killed = status(pid=dead_process, updated=moment(datetime.now(UTC) - timedelta(hours=5)))
    seen = look(run(tmp_path / "run", killed, placed=True))
    assert not seen.going
    assert seen.trouble is not None
    assert f"its process {dead_process} is gone" in seen.trouble
    assert "last heard of 5 h 0" in seen.trouble
    assert f"`fedtag up --resume {tmp_path / 'run'}`" in seen.trouble
    # A run of `flwr run` is resumed by it.
    seen = look(run(tmp_path / "other", killed))
    assert f"the same `flwr run` and --run-config 'out=\"{tmp_path / 'other'}\" resume=true'" in str(
        seen.trouble
    )


def test_another_process_with_the_number_is_not_taken_for_the_run(dead_process: int) -> None:
    assert lives(status())
    assert not lives(status(pid=dead_process))
    began = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    assert not lives(status(started=moment(began - timedelta(hours=1))))


@pytest.mark.parametrize(("age", "lost"), [(SILENT_SECONDS / 2, False), (SILENT_SECONDS + 2, True)])
def test_of_another_host_the_age_tells(age: float, lost: bool, tmp_path: Path) -> None:
    written = status(host="elsewhere", updated=moment(datetime.now(UTC) - timedelta(seconds=age)))
    seen = look(run(tmp_path / "run", written))
    assert (seen.going, seen.trouble is not None) == (not lost, lost)
    assert not lost or f"process {os.getpid()} on elsewhere has written nothing for" in str(seen.trouble)


def test_ended_runs(tmp_path: Path) -> None:
    seen = look(run(tmp_path / "finished", status("finished")))
    assert (seen.going, seen.trouble) == (False, None)
    told = "round 2 stopped: 1 of 2. Complete rounds are safe: resume x"
    seen = look(run(tmp_path / "stopped", status("stopped", reason=told)))
    assert (seen.going, str(seen.trouble).startswith(f"{told}; go on with the same `flwr run`")) == (
        False,
        True,
    )
    seen = look(run(tmp_path / "interrupted", status("stopped", reason="it was interrupted"), placed=True))
    assert str(seen.trouble).startswith("it was interrupted; go on with `fedtag simulate --resume /")


def test_a_run_of_an_earlier_release_is_read_from_its_rows(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", None)
    seen = look(folder)
    assert not seen.going
    assert seen.trouble == f"{folder} has no status.json: whether the run goes on is unknown"
    assert (seen.status.method, seen.status.round, seen.status.rounds) == ("fedavg", 1, 3)
    assert (seen.status.bytes_up, seen.status.val_accuracy, seen.status.clients) == (100, 0.5, ())


def test_the_newest_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTAG_HOME", str(tmp_path / "home"))
    with pytest.raises(RunError, match=r"there is no run in /.*/runs or /.*/home/runs: it has not begun"):
        newest_run(None)
    places = [Path("runs/demo/runs/one/data/seed-0"), Path("runs/one"), tmp_path / "home/runs/two"]
    for age, place in zip((10, 30, 20), places, strict=True):
        run(place, status())
        for file in place.iterdir():
            os.utime(file, (NOW.timestamp() - age,) * 2)
    assert newest_run(None) == Path("runs/demo/runs/one/data/seed-0")
    os.utime(tmp_path / "home/runs/two/status.json")
    assert newest_run(None) == tmp_path / "home/runs/two"
    assert newest_run(Path("runs")) == Path("runs/demo/runs/one/data/seed-0")
    assert newest_run(Path("runs/one")) == Path("runs/one")
    with pytest.raises(RunError, match=r"there is no run in /.*absent: it has not begun"):
        newest_run(Path("absent"))
