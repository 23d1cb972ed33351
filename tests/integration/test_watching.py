"""Runs that are watched while they go on: status.json, `fedtag status`, metrics over HTTP, the log in JSON."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flwr.app import Message
from typer.testing import CliRunner

from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.common.config import RunConfig
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import QuorumError
from fedtag.deploy.cli import app
from fedtag.deploy.federation.ports import free_ports
from fedtag.deploy.terminal.sighting import look
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.meters import Meters, exposed_meters
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import RunStatus, read_status
from tests.system.runbook import blocks

if TYPE_CHECKING:
    from click.testing import Result

REPOSITORY = Path(__file__).resolve().parents[2]
ROUNDS = 3


@pytest.fixture
def sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTAG_HOME", str(tmp_path / "home"))
    return [write_feature_folder(tmp_path / f"site-{k}", seed=k) for k in range(3)]


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(folder: Path) -> RunStatus:
    found = read_status(folder)
    assert found is not None
    return found


class WatchedGrid(InProcessGrid):
    """Looks at the run from outside while it goes on: after each push, when the replies are not pulled yet."""

    def __init__(self, sessions: list[SiteRun], folder: Path, at_push: Callable[[int], None]) -> None:
        super().__init__(sessions)
        self.folder = folder
        self.at_push = at_push
        self.lost: set[int] = set()

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        keys = super().push_messages(sent)
        for key, message in zip(keys, sent, strict=True):
            if message.metadata.dst_node_id in self.lost:
                del self.replies[key]
        self.at_push(int(sent[0].metadata.group_id))
        return keys


def federation(
    sites: list[Path],
    out: Path,
    at_push: Callable[[int], None],
    meters: Meters | None = None,
    **settings: object,
) -> tuple[WatchedGrid, Rounds]:
    config = RunConfig.from_flat(
        {
            "method": "fedavg",
            "data.source": SEPARATOR.join(map(str, sites)),
            "clients": len(sites),
            "rounds": ROUNDS,
            "device": "cpu",
            "out": str(out),
            "exchange.poll": 0.01,
            **settings,
        }
    )
    sessions = [SiteRun(site, config) for site in simulate_sites(config, out.parent / "simulated")]
    grid = WatchedGrid(sessions, out, at_push)
    return grid, Rounds(grid, config, RunDirectory(out), LineProgress(), meters)


def test_status_of_a_run_that_finished(sites: list[Path], tmp_path: Path) -> None:
    options = [part for site in sites for part in ("--data", site)]
    result = fedtag("simulate", "--method", "fedavg", *options, "--rounds", ROUNDS, "--out", "runs/one")
    assert result.exit_code == 0, result.stderr
    run = RunDirectory.open(tmp_path / "runs" / "one")
    status, summary = told(run.path), run.read_summary()
    assert summary is not None
    assert (status.state, status.reason, status.round, status.rounds) == ("finished", None, ROUNDS, ROUNDS)
    assert (status.method, status.wanted, status.pid) == ("fedavg", 3, os.getpid())
    assert (status.bytes_up, status.bytes_down) == (summary.bytes_up, summary.bytes_down)
    assert status.seconds_per_round == summary.seconds_per_round
    assert status.val_accuracy == run.read_rounds()[-1].val_accuracy
    assert [(client.name, client.state, client.failures) for client in status.clients] == [
        (site.name, "answered", 0) for site in sites
    ]
    assert all(client.last_contact is not None for client in status.clients)
    # The newest run of the folder here is taken.
    result = fedtag("status")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "fedavg, 3 of 3 rounds complete, finished"
    assert [line.split()[0] for line in result.stdout.splitlines()[-3:]] == ["site-0", "site-1", "site-2"]
    # An earlier release left no such file, and what it left is still read.
    (run.path / "status.json").unlink()
    result = fedtag("status", run.path, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["bytes_up"] == summary.bytes_up


def test_a_run_is_watched_while_it_goes_on(
    sites: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status, command, metrics by a real GET, and the runbook's own command, in the middle of exchanges."""
    (port,) = free_ports(1)
    monkeypatch.setenv("FEDTAG_METRICS", str(port))
    out = tmp_path / "runs" / "two"
    seen: dict[int, RunStatus] = {}
    metrics: dict[int, str] = {}

    def at_push(number: int) -> None:
        seen[number] = told(out)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            metrics[number] = answer.read().decode()
        if number == 2:
            result = fedtag("status")
            assert (result.exit_code, result.stderr) == (0, "")
            assert result.stdout.startswith(
                "fedavg, 1 of 3 rounds complete, round 2, train: 0 of 3 answered in "
            )
            if shutil.which("curl"):
                command = blocks()["server: metrics"].replace(":9464", f":{port}")
                done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, check=True)
                assert "fedtag_round 1.0\n" in done.stdout

    with exposed_meters(pytest.fail) as meters:
        summary = federation(sites, out, at_push, meters)[1].run()
    assert [(seen[n].state, seen[n].current, seen[n].phase, seen[n].round) for n in sorted(seen)] == [
        ("training", 1, "train", 0),
        ("training", 2, "train", 1),
        ("training", 3, "train", 2),
        ("closing", 4, "close", 3),
    ]
    assert {client.state for client in seen[2].clients} == {"asked"}
    assert [client.name for client in seen[1].clients] == [None] * 3
    assert [client.name for client in seen[2].clients] == [site.name for site in sites]
    assert seen[1].expected_end is None
    assert seen[2].expected_end is not None
    lines = metrics[4].splitlines()
    assert "fedtag_round 3.0" in lines
    assert "fedtag_rounds_total 3.0" in lines
    assert 'fedtag_clients{state="asked"} 3.0' in lines
    assert 'fedtag_exchange_seconds_count{phase="train"} 3.0' in lines
    assert "fedtag_round_seconds_count 3.0" in lines
    rows = RunDirectory.open(out).read_rounds()
    up, down = sum(row.bytes_up for row in rows), sum(row.bytes_down for row in rows)
    assert f'fedtag_bytes_total{{direction="up"}} {float(up)}' in lines
    assert f'fedtag_bytes_total{{direction="down"}} {float(down)}' in lines
    assert f"fedtag_validation_accuracy {rows[1].val_accuracy}" in lines
    assert (told(out).bytes_up, told(out).state) == (summary.bytes_up, "finished")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1)


def test_a_run_below_the_quorum_says_why_it_stopped(sites: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "runs" / "three"

    def at_push(number: int) -> None:
        grid.lost = {2, 3}

    settings = {"exchange.deadline": 0.2, "exchange.quorum": 1.0, "exchange.start-timeout": 0.1}
    grid, rounds = federation(sites, out, at_push, **settings)
    with pytest.raises(QuorumError) as caught:
        rounds.run()
    status = told(out)
    assert (status.state, status.round) == ("stopped", 1)
    assert status.reason == str(caught.value)
    assert "round 2 stopped" in str(status.reason)
    # In round 2 nobody heard from two of them, who were then asked once more.
    assert [(client.name, client.state, client.failures) for client in status.clients] == [
        ("site-0", "failed", 2),
        ("site-1", "failed", 2),
        ("site-2", "online", 0),
    ]
    assert status.clients[0].last_failure == "no reply within 0.2 s"
    result = fedtag("status", out)
    assert result.exit_code == 1
    assert "stopped" in result.stdout.splitlines()[0]
    assert f"resume {out}" in " ".join(result.stdout.split())


def test_a_killed_run_is_noticed_and_resumed(sites: list[Path], tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "fedtag.deploy.cli",
        "simulate",
        "--method",
        "fedavg",
        "--rounds",
        "1000",
    ]
    command += [part for site in sites[:2] for part in ("--data", str(site))] + ["--out", "killed"]
    folder = tmp_path / "killed"
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 180
        while not (folder / "metrics.jsonl").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        seen = look(folder)
        assert (seen.going, seen.trouble, seen.status.pid) == (True, None, process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert told(folder).state == "training"
    result = fedtag("status", "killed")
    assert result.exit_code == 1
    words = " ".join(result.stdout.split())
    assert f"its process {process.pid} is gone" in words
    assert f"go on with `fedtag simulate --resume {folder}`" in words
