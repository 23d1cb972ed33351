"""What a command says that was stopped: how its run goes on, or that it was not begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.common.errors import DeploymentError, QuorumError
from fedtag.deploy.cli import app
from fedtag.deploy.federation.local import LocalFederation
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.monitor import Monitor


@pytest.fixture
def command(
    write_feature_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    folder = write_feature_folder(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    usual = ["--method", "fedavg", "--data", str(folder), "--clients", "2", "--rounds", "2", "--out", "run"]
    return lambda name, *more: CliRunner().invoke(app, [name, *(more or usual)])


def test_a_run_that_flower_refused_is_started_anew(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: LocalFederation) -> None:
        raise DeploymentError("Flower refused the run: it knows no such setting.")

    monkeypatch.setattr(LocalFederation, "__enter__", refused)
    result = command("up")
    assert result.exit_code != 0
    assert "Flower refused the run" in result.stderr
    place = tmp_path / "run"
    assert (
        f"nothing of the run is done: go on with: fedtag up --resume {place}; or delete {place}"
        in result.stderr
    )


def test_a_run_that_was_begun_goes_on(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Rounds._round

    def stopped(self: Rounds, number: int, trackers: Any) -> None:
        if number == 2:
            raise KeyboardInterrupt
        plain(self, number, trackers)

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_round", stopped)
        result = command("simulate")
    assert f"stopped; go on with: fedtag simulate --resume {tmp_path / 'run'}" in result.stderr
    assert command("simulate", "--resume", "run").exit_code == 0


def test_what_stopped_a_run_is_told_also_where_its_status_is_damaged(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: Rounds, number: int, trackers: Any) -> None:
        (tmp_path / "run" / "status.json").write_text("{")
        # A disk on which nothing can be mended any more.
        monkeypatch.setattr(Monitor, "_write", lambda self, interval=0.0: None)
        raise QuorumError("too few sites answered")

    monkeypatch.setattr(Rounds, "_round", stopped)
    result = command("simulate")
    assert "too few sites answered" in result.stderr
    assert f"stopped; go on with: fedtag simulate --resume {tmp_path / 'run'}" in result.stderr
