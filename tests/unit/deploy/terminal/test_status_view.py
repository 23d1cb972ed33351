"""`fedtag status`: what a person and a program see of a run."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.deploy.federation.superlink import RegisteredNode
from fedtag.deploy.terminal.sighting import Sighting
from fedtag.deploy.terminal.status_view import headline, record, view
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import ClientStatus, RunStatus, write_status

NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)
CLIENTS = (
    ClientStatus("11", "north", "answered", "train", "2026-05-01T12:00:20Z"),
    ClientStatus(
        "12", "south", "failed", "train", "2026-05-01T11:58:20Z", 3, "error 5: gone", "2026-05-01T12:00:10Z"
    ),
    ClientStatus("13", None, "asked", "train"),
    ClientStatus("14", "west\x1b[31m", "offline"),
)
STATUS = RunStatus(
    *("0af", "dance", "training", 2, 20, 4, "host", 77, "2026-05-01T11:00:00Z", "2026-05-01T12:00:29Z"),
    clients=CLIENTS,
    current=3,
    phase="train",
    since="2026-05-01T12:00:00Z",
    deadline="2026-05-01T12:10:00Z",
    bytes_up=1_500_000,
    bytes_down=2_000,
    seconds_per_round=12.0,
    expected_end="2026-05-01T12:04:30Z",
    val_accuracy=0.8125,
)
SEEN = Sighting(Path("runs/one"), STATUS, True, None)


def shown(seen: Sighting, nodes: list[RegisteredNode] | None = None) -> str:
    console = Console(file=io.StringIO(), width=200, markup=False)
    console.print(view(seen, nodes, NOW))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells(text: str, first: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(first)]
    return line.split()


def test_view_of_a_run() -> None:
    text = shown(SEEN)
    assert text.splitlines()[0] == (
        "dance, 2 of 20 rounds complete, round 3, train: 2 of 3 answered in 30 s, at most 9 min 30 s more"
    )
    assert cells(text, "bytes")[1:] == ["1.50", "MB", "up,", "2.00", "kB", "down"]
    assert cells(text, "validation accuracy")[2:] == ["81.2%"]
    assert " ".join(cells(text, "end")[1:]) == "in 4 min 00 s, about 2026-05-01T12:04:30 UTC"
    assert " ".join(cells(text, "north")) == "north 11 answered train 10 s ago 0 –"
    assert " ".join(cells(text, "south")) == "south 12 failed train 2 min 10 s ago 3 20 s ago: error 5: gone"
    assert " ".join(cells(text, "–")) == "– 13 asked train – 0 –"
    assert "\x1b" not in text


def test_a_client_at_work_shows_since_when() -> None:
    busy = ClientStatus("15", "east", "working", "train", working_since="2026-05-01T11:56:20Z", percent=35)
    text = shown(replace(SEEN, status=replace(STATUS, clients=(*CLIENTS, busy))))
    assert " ".join(cells(text, "east")) == "east 15 working for 4 min 10 s, 35% train – 0 –"
    assert "2 of 4 answered" in text.splitlines()[0]


def test_a_run_of_flower_has_both_its_names() -> None:
    assert cells(shown(SEEN), "run ") == ["run", "0af"]
    status = replace(STATUS, flower_run="731")
    assert cells(shown(replace(SEEN, status=status)), "run ") == ["run", "0af,", "in", "Flower", "731"]


def test_other_states() -> None:
    waiting = replace(STATUS, state="waiting for clients", phase=None, round=0)
    assert headline(waiting, NOW) == "dance, 0 of 20 rounds complete, waiting for clients, 3 of 4 online"
    closing = replace(STATUS, state="closing", phase="close", round=20)
    assert headline(closing, NOW).startswith(
        "dance, 20 of 20 rounds complete, close: 2 of 3 answered in 30 s"
    )
    assert headline(replace(STATUS, phase=None), NOW) == "dance, 2 of 20 rounds complete, training"
    stopped = Sighting(SEEN.folder, replace(STATUS, state="stopped", phase=None), False, "too few.\nGo on")
    text = shown(stopped)
    assert text.splitlines()[0].endswith("complete, stopped")
    assert text.splitlines()[-1] == "too few. Go on"
    assert "process" not in text


def test_nodes_of_the_superlink() -> None:
    nodes = [
        RegisteredNode("11", "online", "2026-05-01 11:00:30Z"),
        RegisteredNode("12", "offline", "2026-05-01 12:00:00Z"),
        RegisteredNode("99", "registered", "2026-05-01 12:00:00Z"),
    ]
    text = shown(SEEN, nodes)
    assert " ".join(cells(text, "north")[:6]) == "north 11 online for 60 min"
    assert " ".join(cells(text, "south")[:6]) == "south 12 offline for 30 s"
    assert " ".join(cells(text, "west")[:3]) == "west�[31m 14 unknown"
    assert any(
        line.split() == ["–", "99", "registered", "not", "in", "the", "run"] for line in text.splitlines()
    )


def test_record_for_programs() -> None:
    told = json.loads(record(SEEN, None))
    assert (told["directory"], told["going"], told["trouble"], told["round"]) == ("runs/one", True, None, 2)
    assert [client["node"] for client in told["clients"]] == ["11", "12", "13", "14"]
    assert "superlink" not in told
    told = json.loads(record(SEEN, [RegisteredNode("11", "online", "x")]))
    assert told["superlink"] == [{"node": "11", "status": "online", "since": "x"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    directory = RunDirectory(tmp_path / "run")
    directory.write_config({"method": "dance", "rounds": 20})
    write_status(directory.path, replace(STATUS, state="finished", phase=None, current=None))
    return directory.path


def test_command(folder: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(folder)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("dance, 2 of 20 rounds complete, finished\n")
    result = CliRunner().invoke(app, ["status", str(folder), "--json"])
    assert json.loads(result.stdout)["state"] == "finished"
    result = CliRunner().invoke(app, ["status", str(folder), "--watch"])
    assert (result.exit_code, result.stdout) == (0, "dance, 2 of 20 rounds complete, finished\n")


def test_command_for_a_run_that_stopped(folder: Path) -> None:
    write_status(folder, replace(STATUS, state="stopped", reason="too few clients answered", phase=None))
    for options in ([], ["--watch"], ["--json"]):
        result = CliRunner().invoke(app, ["status", str(folder), *options])
        assert result.exit_code == 1
        assert "too few clients answered; go on with the same `flwr run`" in result.stdout


def test_command_without_a_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"there is no run in {tmp_path}: it has not begun, or its directory, the setting `out`, is another one\n"
    )


def test_watching_follows_the_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the command is what moves the run on."""
    own = replace(STATUS, pid=os.getpid(), host=os.uname().nodename, started="2999-01-01T00:00:00Z")
    write_status(folder, own)
    steps = iter(
        [own, replace(own, updated="2026-05-01T12:00:50Z"), replace(own, state="finished", phase=None)]
    )
    monkeypatch.setattr(
        "fedtag.deploy.terminal.observation.time.sleep", lambda seconds: write_status(folder, next(steps))
    )
    result = CliRunner().invoke(app, ["status", str(folder), "--watch"])
    assert result.exit_code == 0
    started = datetime.fromisoformat(str(own.since))
    assert timedelta(seconds=29) == datetime.fromisoformat(own.updated) - started
    assert [line.rpartition("complete, ")[2] for line in result.stdout.splitlines()] == [
        "round 3, train: 2 of 3 answered in 29 s, at most 9 min 31 s more",
        "round 3, train: 2 of 3 answered in 50 s, at most 9 min 10 s more",
        "finished",
    ]
