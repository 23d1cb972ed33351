"""Comparisons from the command line: complete, repeatable, resumable."""

from __future__ import annotations

import csv
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from click.testing import Result as Invoked
from typer.testing import CliRunner

from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.common.errors import RunError
from fedtag.comparison.execution import State, run_cell, state_of
from fedtag.comparison.matrix import Cell, matrix_of
from fedtag.comparison.progress import ROUNDS, Note, Step
from fedtag.comparison.request import requested
from fedtag.comparison.study import STUDIES, read_study
from fedtag.comparison.workers import Workers, run_here
from fedtag.deploy.cli import app
from fedtag.deploy.terminal.cell_bars import CellBars
from fedtag.server.tracking.run_directory import RunDirectory
from tests.unit.client.text.conftest import save_tiny_model

REPOSITORY = Path(__file__).resolve().parents[2]
SCORES = ("comparison.md", "comparison.csv", "summary.csv", "convergence.csv")
QUICK_STUDIES = ("ablation",)
SHIPPED = [
    pytest.param(path.stem, marks=() if path.stem in QUICK_STUDIES else pytest.mark.slow)
    for path in sorted(STUDIES.glob("*.toml"))
]
SMALL = ("--methods", "isolated", "--data", "site-a", "--clients", "2", "--partition", "random")

Fedtag = Callable[..., Invoked]


@pytest.fixture
def fedtag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_feature_folder: Callable[..., Path]
) -> Fedtag:
    """The command line in a folder that holds the data folders site-a and site-b."""
    monkeypatch.chdir(tmp_path)
    write_feature_folder(tmp_path / "site-a", seed=0)
    write_feature_folder(tmp_path / "site-b", seed=1)

    def run(*arguments: object) -> Invoked:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


class Record:
    """Progress that remembers what happened; `react` is called with everything that a cell reports."""

    def __init__(self, react: Callable[[Cell, Step | Note], None] = lambda cell, said: None) -> None:
        self.events: list[tuple[str, int]] = []
        self.errors: dict[int, str | None] = {}
        self.react = react

    def begin(self, cell: Cell) -> None:
        self.events.append(("begin", cell.seed))

    def report(self, cell: Cell, said: Step | Note) -> None:
        if isinstance(said, Step) and said.what == ROUNDS:
            self.events.append((f"round {said.done}", cell.seed))
        self.react(cell, said)

    def end(self, cell: Cell, error: str | None) -> None:
        self.events.append(("end", cell.seed))
        self.errors[cell.seed] = error


def cells(home: Path, seeds: str = "0,", rounds: int = 3) -> list[Cell]:
    """The cells of the isolated row."""
    options = {"clients": 2, "rounds": rounds, "data.partition": "random", "device": "cpu"}
    study = requested(None, "isolated", None, seeds, ["site-a"], None, options, [])
    return [cell for cell in matrix_of(study, home).cells if cell.row == "isolated"]


def scores(run: Path) -> list[tuple[object, ...]]:
    rows = RunDirectory.open(run).read_rounds()
    return [(row.round, row.train_loss, row.val_accuracy, row.test_accuracy, row.test_ece) for row in rows]


def times(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def contents(folder: Path, names: Sequence[str] = SCORES) -> list[bytes]:
    return [(folder / name).read_bytes() for name in names]


def test_matrix_is_complete_and_is_run_once(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ("compare", *SMALL[2:], "--methods", "dance", "--ratio", "0.3", "--seeds", 2, "--rounds", 2)
    first = fedtag(*options, "--out", "one")
    assert first.exit_code == 0, first.stderr
    with (tmp_path / "one" / "comparison.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["row"], line["seed"]) for line in lines] == [
        (row, seed)
        for row in ("isolated", "centralised", "FedAvg (full data)", "dance 30%")
        for seed in ("0", "1")
    ]
    for line in lines:
        summary = RunDirectory.open(tmp_path / "one" / line["run"]).read_summary()
        assert summary is not None
        assert float(line["test"]) == summary.test_accuracy
        assert float(line["ece"]) == summary.test_ece
        assert int(line["best_round"]) == summary.best_round
        assert str(summary.seed) == line["seed"]
        assert f"{line['row']} · site-a · seed {line['seed']}: validation" in first.stderr
    with (tmp_path / "one" / "costs.csv").open(encoding="utf-8") as file:
        assert all(float(line["cpu_seconds"]) > 0 for line in csv.DictReader(file))
    assert (tmp_path / "one" / "comparison.html").is_file()
    assert "FedAvg (full data)" in first.stdout

    before, kept = times(tmp_path / "one" / "runs"), contents(tmp_path / "one")
    again = fedtag(*options, "--out", "one")
    assert again.exit_code == 0, again.stderr
    assert "8 runs; 8 finished before" in again.stderr
    assert times(tmp_path / "one" / "runs") == before
    assert contents(tmp_path / "one") == kept

    replayed = fedtag("compare", "--study", "one/study.toml", "--out", "one")
    assert replayed.exit_code == 0, replayed.stderr
    assert times(tmp_path / "one" / "runs") == before


def test_same_study_gives_the_same_bytes_however_many_jobs(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ("compare", *SMALL, "--seeds", "0,", "--rounds", 2)
    for out, jobs in (("one", 1), ("two", 2)):
        result = fedtag(*options, "--out", out, "--jobs", jobs)
        assert result.exit_code == 0, result.stderr
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_study_runs(
    name: str, fedtag: Fedtag, tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "large", nodes=200)
    options: tuple[object, ...] = ("--data", "large", "--seeds", 1, "--rounds", 2, "--partition", "random")
    if name == "summaries":
        # It reads texts, here by a language model with random weights.
        (folder / FOLDER_FEATURES).unlink()
        options += ("--set", f"summaries.model={save_tiny_model(tmp_path / 'tiny')}")
    result = fedtag("compare", "--study", name, *options)
    assert result.exit_code == 0, result.stderr
    home = tmp_path / "runs" / name
    with (home / "comparison.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    study = read_study(name)
    assert {line["row"] for line in lines} >= {row.name for row in study.rows}
    assert all(line["test"] for line in lines)
    with (home / "convergence.csv").open(encoding="utf-8") as file:
        rounds = [(line["row"], line["round"]) for line in csv.DictReader(file)]
    assert rounds == [(line["row"], number) for line in lines for number in ("1", "2")]


def test_other_settings_are_refused_by_name(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ("compare", *SMALL, "--seeds", "0,", "--out", "one")
    assert fedtag(*options, "--rounds", 1).exit_code == 0
    before = times(tmp_path / "one")
    refused = fedtag(*options, "--rounds", 2, "--set", "train.epochs=4")
    assert refused.exit_code == 1
    assert "seed-0 was run with rounds = 1, not 2 and train.epochs = 3, not 4" in refused.stderr
    assert "choose another --out" in refused.stderr
    assert "(2 other runs of this comparison too)" in refused.stderr
    assert times(tmp_path / "one") == before
    more = fedtag("compare", *SMALL, "--seeds", "0,4", "--out", "one", "--rounds", 1)
    assert more.exit_code == 0
    assert "6 runs; 3 finished before" in more.stderr


def test_changed_data_are_refused_and_not_mixed(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ("compare", *SMALL, "--rounds", 1, "--out", "one")
    assert fedtag(*options, "--seeds", "0,").exit_code == 0
    nodes = tmp_path / "site-a" / "nodes.csv"
    content = nodes.read_text(encoding="utf-8")
    nodes.write_text(content.replace(",a,train", ",b,train"), encoding="utf-8")
    before = times(tmp_path / "one")
    refused = fedtag(*options, "--seeds", 2)
    assert refused.exit_code == 1
    assert "the data site-a changed since" in refused.stderr
    assert "seed-0 was run; choose another --out, or delete that run" in refused.stderr
    assert times(tmp_path / "one") == before
    nodes.write_text(content, encoding="utf-8")
    again = fedtag(*options, "--seeds", 2)
    assert again.exit_code == 0
    assert "6 runs; 3 finished before" in again.stderr


def test_half_done_run_of_changed_data_and_runs_without_fingerprint_are_refused(
    fedtag: Fedtag, tmp_path: Path
) -> None:
    def interrupt(cell: Cell, said: Step | Note) -> None:
        if isinstance(said, Step) and said.done == 2:
            raise KeyboardInterrupt

    cell = cells(tmp_path / "one")[0]
    with pytest.raises(KeyboardInterrupt):
        run_here([cell], Record(interrupt), debug=False)
    edges = tmp_path / "site-a" / "edges.csv"
    content = edges.read_bytes()
    edges.write_bytes(content + b"0,1\n")
    with pytest.raises(RunError, match="the data site-a changed since"):
        run_cell(cell, lambda said: None)
    edges.write_bytes(content)
    assert state_of(cell) is State.UNFINISHED
    (cell.path / "source.json").unlink()
    with pytest.raises(RunError, match="another version of fedtag, which did not keep what its data were"):
        state_of(cell)
    (cell.path / "metrics.jsonl").unlink()
    assert state_of(cell) is State.ABSENT


def test_data_that_change_while_runs_go_on_give_no_table(
    fedtag: Fedtag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = tmp_path / "site-a" / "edges.csv"

    def change(bars: CellBars, cell: Cell, said: Step | Note) -> None:
        if cell.row == "isolated":
            edges.write_bytes(edges.read_bytes() + b"0,1\n")

    monkeypatch.setattr(CellBars, "report", change)
    refused = fedtag("compare", *SMALL, "--rounds", 1, "--seeds", "0,", "--out", "one")
    assert refused.exit_code == 1
    assert "the data site-a changed since" in refused.stderr
    assert not (tmp_path / "one" / "comparison.md").exists()


def test_files_of_the_user_are_not_overwritten(fedtag: Fedtag, tmp_path: Path) -> None:
    home = tmp_path / "mine"
    home.mkdir()
    text = 'title = "Mine" # a remark\ndata = ["site-a"]\nseeds = 1\nreferences = ["isolated"]\n'
    (home / "study.toml").write_text(text)
    options = ("compare", "--study", "mine/study.toml", "--rounds", 1, "--clients", 2)
    refused = fedtag(*options, "--out", "mine")
    assert refused.exit_code == 1
    assert "was not written by this version of fedtag compare" in refused.stderr
    assert contents(home, [path.name for path in home.iterdir()]) == [text.encode()]
    done = fedtag(*options, "--partition", "random", "--out", "one")
    assert done.exit_code == 0, done.stderr
    (home / "study.toml").write_bytes((tmp_path / "one" / "study.toml").read_bytes())
    (home / "comparison.md").write_text("keep")
    refused = fedtag(*options, "--out", "mine")
    assert refused.exit_code == 1
    assert "mine holds comparison.md but no runs" in refused.stderr
    assert (home / "comparison.md").read_text() == "keep"


def test_refused_folder_stays_as_it_is(fedtag: Fedtag, tmp_path: Path) -> None:
    before = times(tmp_path / "site-b")
    refused = fedtag("compare", *SMALL, "--rounds", 1, "--out", "site-b")
    assert refused.exit_code == 1
    assert "site-b is not empty and holds no comparison" in refused.stderr
    assert "results go to" not in refused.stderr
    assert times(tmp_path / "site-b") == before
    refused = fedtag("compare", *SMALL, "--rounds", 1, "--out", "site-b/nodes.csv")
    assert "nodes.csv is a file; choose another --out" in refused.stderr


def test_failing_run_costs_itself_only(fedtag: Fedtag, tmp_path: Path) -> None:
    """More clients than nodes cannot be had, except where all is in one place."""
    options = (
        "compare",
        *SMALL[:4],
        "--partition",
        "random",
        "--clients",
        100,
        "--rounds",
        1,
        "--seeds",
        "0,",
    )
    failed = fedtag(*options, "--out", "one")
    assert failed.exit_code == 1
    assert "failed: isolated · site-a · seed 0; FedAvg (full data) · site-a · seed 0" in failed.stderr
    assert "the same command tries again" in failed.stderr
    text = (tmp_path / "one" / "comparison.md").read_text(encoding="utf-8")
    assert "| isolated | 0 of 1 | – | – | – | – | – |" in text
    assert "| centralised | 1 | " in text


def test_wrong_sources_and_folders_are_refused_before_anything_runs(fedtag: Fedtag, tmp_path: Path) -> None:
    bad = fedtag("compare", *SMALL, "--data", "nowhere", "--out", "one")
    assert bad.exit_code == 2
    assert "'nowhere', which is neither a folder nor a file" in bad.stderr
    assert fedtag("compare", *SMALL, "--device", "cuda:77").exit_code == 2
    assert fedtag("compare", *SMALL, "--jobs", 0).exit_code == 2
    assert not (tmp_path / "one").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "summary.csv").write_text("keep")
    bad = fedtag("compare", *SMALL, "--rounds", 1, "--out", "mine")
    assert bad.exit_code == 1
    assert "mine is not empty and holds no comparison" in bad.stderr
    assert (tmp_path / "mine" / "summary.csv").read_text() == "keep"


def test_interrupted_cell_goes_on_as_if_it_had_not_stopped(fedtag: Fedtag, tmp_path: Path) -> None:
    def interrupt(cell: Cell, said: Step | Note) -> None:
        if isinstance(said, Step) and said.done == 3:
            raise KeyboardInterrupt

    whole, stopped = (cells(tmp_path / name, rounds=6)[0] for name in ("whole", "stopped"))
    assert run_here([whole], Record(), debug=False) == {}
    with pytest.raises(KeyboardInterrupt):
        run_here([stopped], Record(interrupt), debug=False)
    assert state_of(stopped) is State.UNFINISHED
    record = Record()
    assert run_here([stopped], record, debug=False) == {}
    assert ("round 3", 0) in record.events
    assert ("round 2", 0) not in record.events
    assert scores(stopped.path) == scores(whole.path)
    assert state_of(stopped) is State.FINISHED


def test_cell_that_was_killed_before_its_settings_were_written_starts_anew(
    fedtag: Fedtag, tmp_path: Path
) -> None:
    cell = cells(tmp_path / "one", rounds=1)[0]
    (cell.path / "sites" / "half").mkdir(parents=True)
    assert state_of(cell) is State.ABSENT
    run_cell(cell, lambda said: None)
    assert state_of(cell) is State.FINISHED
    other = cells(tmp_path / "two", rounds=1)[0]
    other.path.mkdir(parents=True)
    (other.path / "letter.txt").write_text("keep")
    with pytest.raises(RunError, match="is no run directory"):
        state_of(other)


def test_one_process_encodes_while_the_others_wait_and_a_dead_one_is_replaced(
    fedtag: Fedtag, tmp_path: Path
) -> None:
    seed_of_victim = 1
    wanted = cells(tmp_path / "one", seeds="3", rounds=20)

    def kill(cell: Cell, said: Step | Note) -> None:
        if cell.seed == seed_of_victim and isinstance(said, Step) and said.done == 2:
            next(worker for worker, busy in workers.busy.values() if busy == cell).process.kill()

    record = Record(kill)
    with Workers(2, debug=False) as workers:
        failures = workers.run(wanted, record)
    assert {cell.seed: why for cell, why in failures.items()} == {1: "its process ended with signal 9"}
    assert record.errors == {0: None, 1: "its process ended with signal 9", 2: None}
    assert record.events.index(("begin", 1)) > record.events.index(("round 1", 0))
    assert [state_of(cell) for cell in wanted] == [State.FINISHED, State.UNFINISHED, State.FINISHED]
    assert multiprocessing.active_children() == []


def test_idle_process_that_dies_is_replaced(fedtag: Fedtag, tmp_path: Path) -> None:
    first, second = cells(tmp_path / "one", seeds="2", rounds=1)
    with Workers(1, debug=False) as workers:
        assert workers.run([first], Record()) == {}
        (idle,) = workers.idle
        idle.process.kill()
        idle.process.join()
        assert workers.run([second], Record()) == {}
        assert len(workers.idle) == 1
        assert workers.idle[0] is not idle
    assert state_of(second) is State.FINISHED
    assert multiprocessing.active_children() == []


def test_ctrl_c_stops_all_processes_and_the_same_command_goes_on(fedtag: Fedtag, tmp_path: Path) -> None:
    options = ["compare", *SMALL, "--rounds", "40", "--seeds", "0,", "--jobs", "2", "--out", "one"]
    command = [sys.executable, "-m", "fedtag.deploy.cli", *options]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    metrics = tmp_path / "one" / "runs" / "isolated" / "site-a" / "seed-0" / "metrics.jsonl"
    try:
        deadline = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 5):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stopped; the same command goes on from here" in told
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert told.count("Traceback") == 0
    assert fedtag(*options[:-4], "--out", "one").exit_code == 0
    assert [number for number, *_ in scores(metrics.parent)] == list(range(1, 41))
