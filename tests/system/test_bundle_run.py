"""A run that `flwr run` starts from what `fedtag bundle` wrote, on real Flower processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import read_status
from tests.system.breakable import SMALL, Breakable

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("data", ["", "cora"])
def test_it_says_what_is_known_of_it(three_sites: Breakable, tmp_path: Path, data: str) -> None:
    given = [f"--set={key}={value}" for key, value in SMALL.items()]
    named = [f"--data={data}"] if data else []
    name = f"bundled-{data or 'plain'}"
    folder = tmp_path / "app"
    words = ["bundle", str(folder), "--rounds=1", f"--out={name}", *named, *given]
    written = CliRunner().invoke(app, words)
    assert written.exit_code == 0, written.output
    lines: list[str] = []
    outcome = three_sites.control(name, folder).run({}, lines.append)
    text = "\n".join(lines)
    assert outcome.succeeded, text

    run = RunDirectory.open(three_sites.folder / "runs" / name)
    summary, status, settings = run.read_summary(), read_status(run.path), run.read_config()
    assert summary is not None
    assert status is not None
    assert summary.data == "each institution's own graph"
    assert "| Data | each institution's own graph |" in (run.path / "README.md").read_text(encoding="utf-8")
    assert (summary.run, summary.flower_run) == (status.run, outcome.run_id)
    assert f"this is run {status.run}, which Flower calls {outcome.run_id}" in text
    assert (f"data.source = {data} is for simulations" in text) == bool(data)
    assert settings["data"]["source"] == ""
    assert str(tmp_path) not in (run.path / "config.toml").read_text(encoding="utf-8")
