from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import safetensors.torch
import torch
from click.testing import Result
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory

REPOSITORY = Path(__file__).resolve().parents[2]

Fedtag = Callable[..., Result]


@pytest.fixture
def fedtag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> Fedtag:
    """The command line in a folder that holds the data folders site-a and site-b."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))
    write_feature_folder(tmp_path / "site-a", seed=0)
    write_feature_folder(tmp_path / "site-b", seed=1)

    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


def listed(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def scores(run: Path) -> list[tuple[object, ...]]:
    rows = RunDirectory.open(run).read_rounds()
    return [
        (row.round, row.train_loss, row.val_accuracy, row.test_accuracy, row.test_macro_f1, row.test_ece)
        for row in rows
    ]


def test_run_leaves_a_complete_directory(fedtag: Fedtag, tmp_path: Path) -> None:
    result = fedtag("simulate", "--method", "fedavg", "--data", "site-a", "--data", "site-b", "--rounds", 3)
    assert result.exit_code == 0, result.stderr
    out = tmp_path / "runs" / "fedavg-site-a+site-b-1"
    assert f"run directory  {out}" in result.stdout
    assert f"report         {out / 'report.html'}" in result.stdout
    assert "round 3 of 3: loss" in result.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["method"], summary["clients"], summary["rounds"]) == ("fedavg", 2, 3)
    assert f"{100 * summary['test_accuracy']:.1f}%" in result.stdout
    for name in (
        "config.toml",
        "model.safetensors",
        "report.html",
        "README.md",
        "sites/site-a/nodes.parquet",
    ):
        assert (out / name).is_file()
    assert not list(tmp_path.rglob(".fedtag-*"))


def test_default_folder_is_the_next_free_one(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ("simulate", "--method", "fedavg", "--data", "site-a", "--clients", 1, "--rounds", 1)
    assert [fedtag(*options).exit_code for _ in range(2)] == [0, 0]
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"fedavg-site-a-1", "fedavg-site-a-2"}


def test_settings_reach_the_run_and_can_be_used_again(fedtag: Fedtag, tmp_path: Path) -> None:
    first = fedtag(
        *("simulate", "--method", "fedavg", "--data", "site-a", "--clients", 2, "--partition", "random"),
        *("--split", "0.5,0.25,0.25", "--overlap", 0.1, "--seed", 3, "--rounds", 2, "--out", "one"),
        *("--set", "train.epochs=1", "--device", "cpu"),
    )
    assert first.exit_code == 0, first.stderr
    config = tomllib.loads((tmp_path / "one" / "config.toml").read_text())
    assert config["data"]["overlap"] == 0.1
    assert (config["train"]["epochs"], config["seed"], config["rounds"]) == (1, 3, 2)
    assert config["out"] == config["data"]["sites"] == ""
    again = fedtag("simulate", "--config", "one/config.toml", "--out", "two")
    assert again.exit_code == 0, again.stderr
    assert scores(tmp_path / "one") == scores(tmp_path / "two")
    assert (tmp_path / "one/model.safetensors").read_bytes() == (
        tmp_path / "two/model.safetensors"
    ).read_bytes()


def test_bad_settings_and_bad_data_write_nothing(fedtag: Fedtag, tmp_path: Path) -> None:
    (tmp_path / "site-b" / "edges.csv").write_text("src,dst\n1,nobody\n")
    (tmp_path / "site-b" / "meta.json").write_text('{"name": "site-b", "classes": ["a", "b"]}')
    before = listed(tmp_path)
    bad = fedtag("simulate", "--method", "fedavg", "--rounds", 0, "--set", "ratoi=1")
    assert bad.exit_code == 2
    assert "rounds = 0" in bad.stderr
    assert "did you mean 'ratio'?" in bad.stderr
    for out in ((), ("--out", "deep/in/here")):
        bad = fedtag("simulate", "--method", "fedavg", "--data", "site-a", "--data", "site-b", *out)
        assert bad.exit_code == 2
        assert "nobody" in bad.stderr
        assert "label" in bad.stderr
        assert len(bad.stderr.splitlines()) == 2
    bad = fedtag("simulate", "--method", "fedavg", "--data", "site-a", "--device", "cuda:77")
    assert bad.exit_code == 2
    assert "device 'cuda:77' is not on this machine" in bad.stderr
    assert listed(tmp_path) == before


def test_two_sites_of_one_name_are_refused(fedtag: Fedtag, tmp_path: Path) -> None:
    meta = tmp_path / "site-b" / "meta.json"
    meta.write_text(json.dumps({"name": "site-a", "classes": ["a", "b", "c"]}))
    before = listed(tmp_path)
    bad = fedtag("simulate", "--method", "fedavg", "--data", "site-a", "--data", "site-b")
    assert bad.exit_code == 2
    assert "Two folders have the same name" in bad.stderr
    assert listed(tmp_path) == before


def test_no_name_leads_out_of_the_run(fedtag: Fedtag, tmp_path: Path) -> None:
    meta = tmp_path / "site-b" / "meta.json"
    meta.write_text(json.dumps({"name": "../../../outside", "classes": ["a", "b", "c"]}))
    before = listed(tmp_path)
    good = fedtag(
        "simulate",
        "--method",
        "fedavg",
        "--data",
        "site-a",
        "--data",
        "site-b",
        "--rounds",
        "1",
        "--out",
        "run",
    )
    assert good.exit_code == 0
    assert sorted(one.name for one in (tmp_path / "run" / "sites").iterdir() if one.is_dir()) == [
        "outside",
        "site-a",
    ]
    assert [one for one in listed(tmp_path) if one not in before and Path(one).parts[0] != "run"] == []


def without(folder: Path, *columns: str) -> None:
    """Leave nothing in some columns of the nodes."""
    nodes = pd.read_csv(folder / "nodes.csv")
    nodes[list(columns)] = None
    nodes.to_csv(folder / "nodes.csv", index=False)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (("split",), "no labelled node is in the split train; mark some"),
        (("label", "split"), "no node has a label"),
    ],
)
def test_data_in_which_no_node_can_train_are_refused_before_a_run(
    fedtag: Fedtag, tmp_path: Path, columns: tuple[str, ...], told: str
) -> None:
    without(tmp_path / "site-a", *columns)
    before = listed(tmp_path)
    for clients in (1, 2):
        bad = fedtag("simulate", "--method", "fedavg", "--data", "site-a", "--clients", clients)
        assert (bad.exit_code, listed(tmp_path)) == (2, before)
        assert told in bad.stderr
    # One that cannot train is a normal client of others.
    good = fedtag(
        "simulate",
        "--method",
        "fedavg",
        "--data",
        "site-a",
        "--data",
        "site-b",
        "--rounds",
        1,
        "--out",
        "run",
    )
    assert good.exit_code == 0, good.stderr


def without_split(folder: Path) -> None:
    """Leave the nodes without a column for their split."""
    pd.read_csv(folder / "nodes.csv").drop(columns="split").to_csv(folder / "nodes.csv", index=False)


def test_a_split_that_is_drawn_is_said_wherever_it_counts(fedtag: Fedtag, tmp_path: Path) -> None:
    told = "60%, 20%, 20% of each class train, validate and test"
    without_split(tmp_path / "site-b")
    for site, drawn in (("site-a", False), ("site-b", True)):
        assert (told in fedtag("validate", site).output) == drawn
        run = tmp_path / f"run-{site}"
        result = fedtag(
            *("simulate", "--method", "fedavg", "--data", site, "--clients", 2, "--rounds", 1, "--out", run)
        )
        assert result.exit_code == 0, result.stderr
        before, _, after = result.stderr.partition("results go to")
        assert f"{site}: 60 nodes, " in before
        assert "36 training, 12 validation and 12 test nodes" in before
        assert told not in after
        places = [before, (run / "report.html").read_text(), (run / "README.md").read_text()]
        assert [told in text for text in places] == 3 * [drawn]
        assert ("| Split | as it came with the data |" in places[2]) != drawn
    # Each institution says it of its own data.
    run = tmp_path / "both"
    options = ("--method", "fedavg", "--data", "site-a", "--data", "site-b", "--rounds", 1, "--out", run)
    assert fedtag("simulate", *options).exit_code == 0
    card = (run / "README.md").read_text()
    assert f"{told}, drawn by the ids of its nodes at 1 of 2 institutions" in card
    # Another one that is asked for is none that was missing.
    run = tmp_path / "asked"
    assert (
        fedtag(
            *("simulate", "--method", "fedavg", "--data", "site-b", "--clients", 2, "--rounds", 1),
            *("--split", "0.5,0.2,0.3", "--out", run),
        ).exit_code
        == 0
    )
    card = (run / "README.md").read_text()
    assert "| Split | 0.5,0.2,0.3 of each class" in card
    assert told not in card


def test_what_validate_counts_and_writes_down_is_what_a_run_trains_on(fedtag: Fedtag, tmp_path: Path) -> None:
    without_split(tmp_path / "site-b")
    options = ("simulate", "--method", "fedavg", "--data", "site-b", "--clients", 2, "--rounds", 1)
    assert fedtag(*options, "--out", "drawn").exit_code == 0
    result = fedtag("validate", "site-b", "--write-split")
    assert result.exit_code == 0, result.stderr
    assert f"split written to {Path('site-b') / 'nodes.csv'}" in result.stdout
    counted = [line.split() for line in result.stdout.splitlines()]
    nodes = pd.read_csv(tmp_path / "site-b" / "nodes.csv")
    for name, group in nodes.groupby("label"):
        train, val, test = ((group["split"] == one).sum() for one in ("train", "val", "test"))
        assert [name, str(train), str(val), str(test), "0", str(len(group))] in counted
    assert fedtag(*options, "--out", "written").exit_code == 0
    first, second = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("drawn", "written"))
    assert first == second
    again = fedtag("validate", "site-b", "--write-split")
    assert "split given already, nothing to write" in again.stdout


def test_validate_refuses_what_a_run_of_several_refuses(fedtag: Fedtag, tmp_path: Path) -> None:
    without(tmp_path / "site-a", "split")
    assert fedtag("validate", "site-a").exit_code == 2
    assert fedtag("validate", "site-a", "site-b").exit_code == 0
    meta = tmp_path / "site-b" / "meta.json"
    meta.write_text(json.dumps({"name": "site-a", "classes": ["a", "b", "d"]}))
    before = listed(tmp_path)
    simulate = ("simulate", "--method", "fedavg", "--data", "site-a", "--data", "site-b")
    told = [fedtag(*command) for command in (("validate", "site-a", "site-b"), simulate)]
    assert [one.exit_code for one in told] == [2, 2]
    assert told[0].stderr == told[1].stderr
    assert "site-b: nodes.csv: label" in told[0].stderr
    (tmp_path / "site-b" / "meta.json").write_text(json.dumps({"name": "site-a", "classes": ["a", "b", "c"]}))
    told = [fedtag(*command) for command in (("validate", "site-a", "site-b"), simulate)]
    assert told[0].stderr == told[1].stderr
    assert "Two folders have the same name (site-a, site-a)" in told[0].stderr
    assert listed(tmp_path) == before


def test_taken_folder_is_refused_before_any_work(fedtag: Fedtag, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep")
    before = listed(tmp_path)
    bad = fedtag("simulate", "--method", "fedavg", "--data", "nowhere", "--out", "mine")
    assert bad.exit_code == 1
    assert "is not empty and is no run directory" in bad.stderr
    assert listed(tmp_path) == before


def test_resume_takes_no_other_settings_and_leaves_finished_runs(fedtag: Fedtag, tmp_path: Path) -> None:
    fedtag(
        "simulate", "--method", "fedavg", "--data", "site-a", "--clients", 1, "--rounds", 1, "--out", "one"
    )
    bad = fedtag("simulate", "--resume", "one", "--seed", 2)
    assert bad.exit_code == 2
    assert "takes every setting from its config.toml" in bad.stderr
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*")}
    done = fedtag("simulate", "--resume", "one")
    assert done.exit_code == 0
    assert "one is finished: there is nothing to continue" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "one").rglob("*")} == before
    bad = fedtag("simulate", "--resume", "site-a")
    assert bad.exit_code == 1
    assert "site-a is no run directory" in bad.stderr


STOPPED = ("simulate", "--method", "fedavg", "--data", "site-a", "--data", "site-b", "--rounds", "60")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Path:
    """A run that nobody stops."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for seed, name in enumerate(("site-a", "site-b")):
            write_feature_folder(folder / name, seed=seed)
        assert CliRunner().invoke(app, [*STOPPED, "--out", "run"]).exit_code == 0
    return folder / "run"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_stopped_run_goes_on_as_if_it_had_not_stopped(
    fedtag: Fedtag, whole: Path, tmp_path: Path, end: signal.Signals
) -> None:
    command = [sys.executable, "-m", "fedtag.deploy.cli", *STOPPED, "--out", "stopped"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        metrics = tmp_path / "stopped" / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 5):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(end)
        heard = process.communicate(timeout=30)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[end]
    assert not (tmp_path / "stopped" / "summary.json").exists()
    if end != signal.SIGKILL:
        assert f"go on with: fedtag simulate --resume {tmp_path / 'stopped'}" in heard
        assert "Traceback" not in heard
    # As a copy on another disk would be: the folder's new place counts, not the one in its settings.
    (tmp_path / "stopped").rename(tmp_path / "moved")
    result = fedtag("simulate", "--resume", "moved")
    assert result.exit_code == 0, result.stderr
    assert "going on after round" in result.stderr
    assert scores(tmp_path / "moved") == scores(whole)
    models = [safetensors.torch.load_file(run / "model.safetensors") for run in (whole, tmp_path / "moved")]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def test_run_killed_before_its_first_round_goes_on(fedtag: Fedtag, tmp_path: Path) -> None:
    from fedtag.runs.settings import gather
    from fedtag.runs.simulation import prepare

    prepare(
        gather(
            None, {"method": "fedavg", "data.source": "site-a", "clients": 1, "rounds": 1, "out": "one"}, []
        )
    )
    assert fedtag("simulate", "--resume", "one").exit_code == 0
    assert (tmp_path / "one" / "summary.json").is_file()


def test_report_of_several_runs(fedtag: Fedtag, tmp_path: Path) -> None:
    for method in ("fedavg", "isolated"):
        result = fedtag("simulate", "--method", method, "--data", "site-a", "--data", "site-b", "--rounds", 2)
        assert result.exit_code == 0, result.stderr
    runs = sorted((tmp_path / "runs").iterdir())
    result = fedtag("report", *runs, "--out", "pages/comparison.html")
    assert result.exit_code == 0
    page = (tmp_path / "pages" / "comparison.html").read_text(encoding="utf-8")
    assert all(run.name in page for run in runs)
    assert fedtag("report", "site-a").exit_code == 1
