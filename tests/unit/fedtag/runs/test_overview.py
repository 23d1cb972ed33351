"""Runs of a folder, side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedtag
from fedtag.deploy.cli import app
from fedtag.deploy.terminal.run_table import shortened
from fedtag.errors import RunError
from tests.tiny import Tiny


@pytest.fixture(scope="module")
def shelf(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, one of them deeper, one that stopped, one that is damaged, and what is no run."""
    folder = tmp_path_factory.mktemp("shelf")
    first, second = tiny({"rounds": 2}), tiny({"rounds": 1, "seed": 3, "method": "isolated"})
    names = [f"site-{k}" for k in range(3)]
    stopped = tiny(
        {"exchange.retries": 0}, online=lambda exchange: names if exchange < 2 else [], patient=False
    )
    for tried, name in ((first, "first"), (second, "deeper/second"), (stopped, "stopped"), (first, "broken")):
        shutil.copytree(tried.place / "run", folder / name)
    (folder / "broken" / "summary.json").write_text("{", encoding="utf-8")
    shutil.copytree(folder / "first", folder / "first" / "sites" / "inner")
    shutil.copytree(folder / "first", folder / ".hidden")
    (folder / "notes").mkdir()
    return folder


def test_every_run_is_a_row_and_a_damaged_one_says_so(shelf: Path) -> None:
    table = fedtag.list_runs(shelf)
    assert set(table.index) == {"first", "deeper/second", "stopped", "broken"}
    summary = json.loads((shelf / "first" / "summary.json").read_text(encoding="utf-8"))
    first, stopped, broken = (table.loc[name] for name in ("first", "stopped", "broken"))
    assert (first["method"], first["state"], first["rounds"], first["planned"]) == (
        "fedavg",
        "finished",
        2,
        2,
    )
    assert (first["val"], first["test"], first["metric"]) == (
        summary["val_accuracy"],
        summary["test_accuracy"],
        "accuracy",
    )
    assert (stopped["state"], stopped["rounds"], stopped["planned"]) == ("stopped", 1, 3)
    assert table["test"].isna()["stopped"]
    assert broken["state"] == "damaged"
    assert "summary.json" in broken["trouble"]
    assert list(table["date"]) == sorted(table["date"], reverse=True)
    assert fedtag.list_runs(shelf / "first").index.tolist() == ["first"]
    with pytest.raises(RunError, match="is not a folder"):
        fedtag.list_runs(shelf / "absent")


def test_rows_of_rounds_are_not_read(shelf: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(shelf / "first", tmp_path / "run"))
    for name in ("metrics", "clients", "disclosures"):
        (copy / f"{name}.jsonl").write_text("no row\n", encoding="utf-8")
    assert fedtag.list_runs(copy)["state"].tolist() == ["finished"]


def test_what_differs_between_two_runs_is_told(shelf: Path) -> None:
    table = fedtag.diff_runs(shelf / "first", fedtag.open_run(shelf / "deeper" / "second"))
    settings = {name: tuple(row) for (kind, name), row in table.iterrows() if kind == "setting"}
    assert settings["rounds"] == (2, 1)
    assert settings["method"] == ("fedavg", "isolated")
    assert settings["seed"] == (0, 3)
    assert "clients" not in settings
    assert tuple(table.loc[("result", "rounds")]) == (2, 1)
    assert not {"run", "flower_run", "peak_rss_mb"} & {name for _, name in table.index}
    assert fedtag.diff_runs(shelf / "first", shelf / "first").empty
    unfinished = fedtag.diff_runs(shelf / "first", shelf / "stopped")
    assert unfinished.loc[("result", "rounds"), "second"] is None
    assert unfinished.loc[("result", "rounds"), "first"] == 2


def test_the_commands_show_both(shelf: Path) -> None:
    call = CliRunner()
    listed = call.invoke(app, ["runs", str(shelf)], env={"COLUMNS": "200"})
    assert listed.exit_code == 1
    for told in ("deeper/second", "1 of 3", "damaged", "summary.json"):
        assert told in listed.output
    same = call.invoke(app, ["runs", "list", str(shelf / "first")], env={"COLUMNS": "200"})
    assert same.exit_code == 0, same.output
    command = ["runs", "diff", str(shelf / "first"), str(shelf / "deeper" / "second")]
    shown = call.invoke(app, command, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "isolated" in shown.output


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ((0.8379613, 0.6), ("0.838", "0.6")),
        ((0.83796131, 0.83796139), ("0.8379613", "0.8379614")),
        (("ab" * 32, "cd" * 32), ("abababab", "cdcdcdcd")),
        ((None, 3), ("–", "3")),
        ((1e-9, 2e-9), ("1e-09", "2e-09")),
    ],
)
def test_values_are_as_short_as_they_differ(values: tuple[Any, Any], shown: tuple[str, str]) -> None:
    assert shortened(*values) == shown
