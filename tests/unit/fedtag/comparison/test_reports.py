"""What stands beside a run in its report: finished references on the same data, whatever else lies there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedtag
from fedtag.comparison.reports import references_of
from fedtag.deploy.cli import app

SMALL = {"model.hidden": 4, "train.epochs": 1}


@pytest.fixture(scope="module")
def runs(write_feature_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of FedAvg, an isolated one on the same data, and one of another seed."""
    place = tmp_path_factory.mktemp("runs")
    graph = fedtag.Graph.from_folder(write_feature_folder(place / "data"))
    for name, method, seed in (("own", "fedprox", 0), ("beside", "isolated", 0), ("seed", "fedavg", 1)):
        fedtag.simulate(
            graph, method, clients=2, rounds=1, seed=seed, settings=SMALL, out=place / name, progress=False
        )
    return place


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def test_the_same_data_and_seed_are_beside_it_and_no_others(runs: Path) -> None:
    (one,) = references_of(runs / "own")
    beside = fedtag.open_run(runs / "beside").summary
    assert (one.name, one.test, one.rounds) == ("isolated", beside["test_accuracy"], 1)
    assert references_of(runs / "seed") == []
    assert references_of(runs / "data") == []


def test_the_command_writes_page_and_figures_where_python_does(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = copy / "own"
    (own / "report.html").unlink(missing_ok=True)
    done = CliRunner().invoke(app, ["report", str(own)])
    assert done.exit_code == 0, done.output
    assert fedtag.open_run(own).report() == own / "report.html"
    assert (own / "report.html").is_file()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("out", [None, "pages/both.html"])
def test_a_page_of_several_runs_changes_none_of_them(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str | None
) -> None:
    """It lies in the current folder or where it is wanted, its figures beside it."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    before = contents(copy)
    named = [] if out is None else ["--out", out]
    done = CliRunner().invoke(app, ["report", str(copy / "own"), str(copy / "beside"), "--figures", *named])
    assert done.exit_code == 0, done.output
    page = here / (out or "reports.html")
    assert str(page) in done.output
    text = page.read_text(encoding="utf-8")
    assert all(name in text for name in ("own", "beside"))
    figures = page.parent / "figures"
    assert {folder.name for folder in figures.iterdir()} == {"own", "beside"}
    assert all(list((figures / name).glob("*.svg")) for name in ("own", "beside"))
    assert contents(copy) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("file", ["summary.json", "config.toml", "places.json"])
def test_what_is_wrong_with_a_neighbour_is_no_matter_of_the_run(copy: Path, file: str) -> None:
    # The control: with it whole there is one.
    assert len(references_of(copy / "own")) == 1
    (copy / "beside" / file).write_text("{")
    assert references_of(copy / "own") == []


def test_other_folders_of_a_comparison_are_looked_at_in_a_comparison_alone(
    copy: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for row, run in (("a", "own"), ("b", "beside")):
        shutil.copytree(copy / run, home / "runs" / row / "data" / "seed-0")
    own = home / "runs" / "a" / "data" / "seed-0"
    assert references_of(own) == []
    (home / "study.toml").touch()
    assert [one.name for one in references_of(own)] == ["isolated"]
