from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import read_status

REPOSITORY = Path(__file__).resolve().parents[2]
Fedtag = Callable[..., int]


@pytest.fixture
def fedtag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> Fedtag:
    """The command line in a folder with a space, which holds the data folders site-a and site-b."""
    folder = tmp_path / "a folder"
    write_feature_folder(folder / "site-a", seed=0)
    write_feature_folder(folder / "site-b", seed=1)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))

    def run(command: str, out: str, *arguments: object) -> int:
        options = ["--method", "fedavg", "--data", "site-a", "--data", "site-b", "--out", out]
        result = CliRunner().invoke(app, [command, *options, *map(str, arguments)])
        assert result.exit_code == 0, result.stderr
        return result.exit_code

    return run


def assert_same_results(one: Path, other: Path) -> None:
    first, second = (safetensors.torch.load_file(run / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=0, atol=1e-5)
    rows = [RunDirectory.open(run).read_rounds() for run in (one, other)]
    assert [row.test_accuracy for row in rows[0]] == [row.test_accuracy for row in rows[1]]
    assert [row.train_loss for row in rows[0]] == pytest.approx([row.train_loss for row in rows[1]], abs=1e-5)


def flower_processes(mark: str) -> list[str]:
    """The commands of living processes whose environment or command names the mark."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(mark in word for word in words):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    marks = ("flower", "flwr", "fedtag.client.worker")
    return [command for command in found if any(mark in command for mark in marks)]


def test_real_processes_give_the_results_of_one_process(fedtag: Fedtag, tmp_path: Path) -> None:
    fedtag("simulate", "one", "--rounds", 2)
    fedtag("up", "many", "--rounds", 2)
    folder = tmp_path / "a folder"
    assert_same_results(folder / "one", folder / "many")
    names = {path.name for path in (folder / "many" / "logs").iterdir()}
    assert names == {"run.log", "superlink.log", "node-0.log", "node-1.log"}
    clients = [json.loads(line) for line in (folder / "many" / "clients.jsonl").read_text().splitlines()]
    assert {row["client"] for row in clients} == {"site-a", "site-b"}
    assert (folder / "many" / "report.html").is_file()
    for site in ("site-a", "site-b"):
        # One worker served all exchanges, and was asked to end.
        log = (folder / "many" / "sites" / site / "worker" / "log").read_text()
        assert (log.count("listens"), log.count("ends")) == (1, 1)
    assert flower_processes(str(tmp_path)) == []


@pytest.mark.slow
def test_real_processes_train_on_from_a_released_model_as_one_process_does(
    fedtag: Fedtag, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    fedtag("simulate", "parent", "--rounds", 2)
    for command, out in (("simulate", "one"), ("up", "many")):
        fedtag(command, out, "--rounds", 1, "--seed", 3, "--from", folder / "parent")
    fedtag("simulate", "anew", "--rounds", 1, "--seed", 3)
    parent, one, many, anew = (
        safetensors.torch.load_file(folder / run / "model.safetensors")
        for run in ("parent", "one", "many", "anew")
    )
    assert one.keys() == many.keys() == anew.keys()
    assert all(torch.equal(one[name], many[name]) for name in one)
    # It is neither the parent's model nor what training from the beginning gives.
    assert not any(torch.equal(one[name], other[name]) for other in (parent, anew) for name in one)
    cards = [json.loads((folder / run / "model.json").read_text()) for run in ("parent", "many")]
    assert cards[0]["fingerprint"][:12] in cards[1]["trained_on_from"]
    assert (folder / "many" / "parent" / "model.safetensors").is_file()


@pytest.mark.slow
def test_encrypted_processes_give_the_same_results(fedtag: Fedtag, tmp_path: Path) -> None:
    fedtag("simulate", "one", "--rounds", 2)
    fedtag("up", "encrypted", "--rounds", 2, "--tls")
    folder = tmp_path / "a folder"
    assert_same_results(folder / "one", folder / "encrypted")
    logs = [path.read_text() for path in (folder / "encrypted" / "logs").glob("node-*.log")]
    assert len(logs) == 2
    # Flower warns where a program speaks in clear.
    assert not any("insecure" in text for text in logs)
    # What is left are the sites' own, each in its site's folder, for its audit log: none of the federation's.
    left = {path.relative_to(folder / "encrypted") for path in (folder / "encrypted").rglob("*.key")}
    assert {path.parts[0] for path in left} <= {"sites"}
    assert {path.parts[2:] for path in left} <= {("keys", "identity.key"), ("keys", "register.key")}
    assert flower_processes(str(tmp_path)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [(), ("--set", "privacy.secure-aggregation=true")], ids=["clear", "masked"]
)
def test_real_processes_extend_a_finished_run(
    settings: tuple[str, ...], fedtag: Fedtag, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    fedtag("simulate", "whole", "--rounds", 4, *settings)
    fedtag("up", "first", "--rounds", 2, *settings)
    command = ["up", "--resume", str(folder / "first"), "--rounds", "4", "--out", str(folder / "longer")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert_same_results(folder / "whole", folder / "longer")
    assert RunDirectory.open(folder / "longer").read_config()["parent"]["rounds"] == 2
    assert flower_processes(str(tmp_path)) == []


@pytest.mark.slow
def test_stopped_federation_leaves_no_process(fedtag: Fedtag, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    command = [sys.executable, "-m", "fedtag.deploy.cli", "up", "--method", "fedavg", "--data", "site-a"]
    command += ["--clients", "1", "--rounds", "1000", "--out", "stopped"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while not (folder / "stopped" / "metrics.jsonl").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        assert flower_processes(str(tmp_path))
    finally:
        process.send_signal(signal.SIGTERM)
        heard = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert f"go on with: fedtag up --resume {folder / 'stopped'}" in heard
    assert flower_processes(str(tmp_path)) == []


def test_a_killed_supernode_is_named_by_its_site(fedtag: Fedtag, tmp_path: Path) -> None:
    """It has not introduced itself yet, so that the server knows its number only; all logs are JSON."""
    folder = tmp_path / "a folder"
    command = [sys.executable, "-m", "fedtag.deploy.cli", "up", "--method", "fedavg", "--data", "site-a"]
    command += ["--data", "site-b", "--rounds", "2", "--out", "run", "--set", "exchange.first-deadline=15"]
    command += ["--set", "exchange.retries=0", "--set", "exchange.quorum=1.0"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "FEDTAG_LOG": "json"}
    heard = folder / "heard"

    with heard.open("w") as stderr:
        process = subprocess.Popen(command, env=environment, stderr=stderr)
    try:
        deadline = time.monotonic() + 180
        while (found := read_status(folder / "run")) is None or found.phase != "train":
            assert time.monotonic() < deadline, heard.read_text()
            assert process.poll() is None, heard.read_text()
            time.sleep(0.1)
        # The SuperNode before its service, of whose end it would be told and take its leave.
        for program in reversed(psutil.Process(process.pid).children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                if "node-1" in " ".join(program.cmdline()):
                    program.kill()
        process.wait(180)
    finally:
        process.terminate()
        process.wait(60)
    text = heard.read_text()
    assert process.returncode == 1
    assert "the SuperNode of site-b ended with code -9" in text
    assert re.search(r"^client left out, round 1, site-b \(node \d+\)", text, re.MULTILINE)
    assert re.search(r"^round 1 stopped: .*site-b \(node \d+\): no reply within 15 s", text, re.MULTILINE)
    status = read_status(folder / "run")
    assert status is not None
    assert (status.state, status.round) == ("stopped", 0)
    logs = [
        line for line in (folder / "run" / "logs" / "run.log").read_text().splitlines() if "fedtag" in line
    ]
    assert [json.loads(line)["event"] for line in logs if line.startswith("{")][:2] == [
        "message",
        "run started",
    ]
    assert flower_processes(str(tmp_path)) == []


def test_failure_of_a_run_is_one_sentence(fedtag: Fedtag, tmp_path: Path) -> None:
    fedtag("simulate", "one", "--rounds", 1)
    one = tmp_path / "a folder" / "one"
    (one / "summary.json").unlink()
    config = one / "config.toml"
    config.write_text(config.read_text().replace("seed = 0", "seed = 1"))
    result = CliRunner().invoke(app, ["up", "--resume", "one"])
    assert result.exit_code == 1
    (sentence,) = [line for line in result.stderr.splitlines() if "belongs to other settings" in line]
    assert sentence.endswith(f"the logs are in {one / 'logs'}")
    assert "Traceback" not in result.stderr
    assert flower_processes(str(tmp_path)) == []


CONDENSED = (
    "--method",
    "fedc4",
    "--ratio",
    0.2,
    "--set",
    "condenser.outer-loops=2",
    "--set",
    "fedc4.clusters=1",
)


@pytest.mark.slow
@pytest.mark.parametrize("own", [(), CONDENSED], ids=["fedavg", "letters"])
def test_ray_gives_the_results_of_one_process(
    fedtag: Fedtag, tmp_path: Path, own: tuple[object, ...]
) -> None:
    fedtag("simulate", "one", "--rounds", 2, *own)
    fedtag("simulate", "ray", "--rounds", 2, "--engine", "ray", *own)
    assert_same_results(tmp_path / "a folder" / "one", tmp_path / "a folder" / "ray")
    assert flower_processes(str(tmp_path)) == []
