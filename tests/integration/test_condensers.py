"""A run on condensed graphs from the command line, and what its records say of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from deploy.cli import app


def test_a_run_tells_of_every_clients_condensed_graph(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder, out = write_feature_folder(tmp_path / "data"), tmp_path / "run"
    settings = ["condenser.outer-loops=2", "condenser.hidden=4", "model.hidden=8", "device=cpu"]
    command = ["simulate", "--method", "fedavg", "--condenser", "gcond", "--ratio", "0.2", "--rounds", "2"]
    command += ["--clients", "2", "--data", str(folder), "--out", str(out)]
    for setting in settings:
        command += ["--set", setting]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (out / "clients.jsonl").read_text().splitlines()]
    assert len(rows) == 4
    for row in rows:
        told = row["condensation"]
        assert told["nodes"] == row["nodes"]
        assert told["core"] == -(-row["nodes"] // 5)
        assert told["copied"] == 0
        assert 0 <= told["close"] <= 1
    summary = json.loads((out / "summary.json").read_text())
    assert summary["ratio"] == 0.2
    assert (out / "sites").is_dir()


def test_another_method_refuses_a_condenser(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["simulate", "--method", "dance", "--condenser", "sfgc", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code == 2
    assert "condenser.name = sfgc has no place in method dance" in " ".join(result.output.split())
