"""examples/plugin as someone installs it beside fedtag, from wheels alone: what is built in knows nothing of it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from fedtag.server.tracking.run_directory import RunDirectory
from tests.system.conftest import assert_same_model
from tests.system.wheels import built, copied, environment, project

PLUGIN = "examples/plugin"
QUICK = ("--rounds", "3", "--set", "ratio=0.2", "--set", "model.hidden=8", "--set", "device=cpu")
ALL = {
    "parts": "feature-noise",
    "condenser.name": "hardest",
    "model.backbone": "twice-linear",
    "twice-linear.restart": 0.5,
    "tracking.trackers": "tensorboard,spreadsheet",
}
SECURE = {"privacy.secure-aggregation": "true"}

Called = Callable[..., str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files at a place that is no checkout."""
    return copied(tmp_path_factory.mktemp("elsewhere"), PLUGIN) / PLUGIN


@pytest.fixture(scope="module")
def programs(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a fresh environment with the wheels of fedtag and of the package."""
    place = tmp_path_factory.mktemp("wheels")
    wheels = [built(project(place / "fedtag"), place / "out"), built(source, place / "out")]
    return environment(place / "fresh", wheels)


@pytest.fixture(scope="module")
def variables() -> Mapping[str, str]:
    """Of a process that knows no checkout."""
    unknown = ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in unknown}
    return {**kept, "NO_COLOR": "1", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def call(programs: Path, variables: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Called:
    """A program of the environment, in a folder of its own; what it says, errors included."""
    folder = tmp_path_factory.mktemp("here")

    def called(program: str, *arguments: object) -> str:
        command = [str(programs / program), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=800
        )
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr
        return done.stdout + done.stderr

    return called


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> tuple[Path, ...]:
    """Three institutions, which together have more training nodes of one class."""
    place = tmp_path_factory.mktemp("data")
    return tuple(write_feature_folder(place / f"site-{k}", nodes=31 + 6 * k, seed=k) for k in range(3))


def training_labels(folder: Path) -> Counter[str]:
    """How many training nodes each class has."""
    with (folder / "nodes.csv").open(encoding="utf-8") as file:
        return Counter(row["label"] for row in csv.DictReader(file) if row["split"] == "train")


def words(data: tuple[Path, ...], out: Path, settings: Mapping[str, object]) -> list[str]:
    """The options of a run of the method."""
    given = [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]
    places = [option for folder in data for option in ("--data", str(folder))]
    return ["--method", "class-balance", *places, *QUICK, *given, "--out", str(out)]


@pytest.fixture(scope="module")
def run(
    call: Called, data: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """A run directory that a command makes."""

    def made(settings: Mapping[str, object], command: str = "simulate") -> Path:
        out = tmp_path_factory.mktemp("runs") / "run"
        call("fedtag", command, *words(data, out, settings))
        return out

    return made


@pytest.fixture(scope="module")
def whole(run: Callable[..., Path]) -> Path:
    """A run made of all that the package brings."""
    return run(ALL)


def test_all_of_it_is_listed_with_its_settings(call: Called, programs: Path) -> None:
    place = call("python", "-c", "import fedtag_example; print(fedtag_example.__file__)").strip()
    assert Path(place).is_relative_to(programs.parent)
    listed, described, settings = (
        call("fedtag", *one) for one in (("methods",), ("methods", "class-balance"), ("settings",))
    )
    for name in ("class-balance", "feature-noise", "hardest", "twice-linear", "spreadsheet"):
        assert name in listed
    assert "King and Zeng" in described
    assert "label_weight" in described
    for key in ("class-balance.smoothing", "feature-noise.deviation", "twice-linear.restart"):
        assert key in settings


def test_the_tracker_is_told_what_the_rows_hold(whole: Path) -> None:
    with (whole / "rounds.csv").open(encoding="utf-8") as file:
        told = {(int(step), name): float(value) for step, name, value in csv.reader(file)}
    rows = RunDirectory.open(whole).read_rounds()
    assert [told[row.round, "accuracy/val"] for row in rows] == [row.val_accuracy for row in rows]
    assert any((whole / "tensorboard").iterdir())


def test_report_card_columns_and_disclosures_follow_from_what_it_says(whole: Path) -> None:
    page, card = ((whole / name).read_text(encoding="utf-8") for name in ("report.html", "README.md"))
    assert "Balance of classes" in page
    assert card.startswith("# class-balance on site-0, site-1, site-2\n")
    assert "fedtag-example" in card
    rows = [json.loads(line) for line in (whole / "clients.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(row["label_weight"] > 0 for row in rows if row["round"] == 1)
    assert all(row["condensation"]["copied"] == 1 for row in rows if row["round"] == 1)
    directory = RunDirectory.open(whole)
    assert {"balance", "label_weight"} <= {row.kind for row in directory.read_disclosures()}
    assert directory.read_config()["twice-linear"]["restart"] == 0.5


@pytest.mark.slow
def test_between_processes_it_comes_to_the_same_model(whole: Path, run: Callable[..., Path]) -> None:
    assert_same_model(whole, run(ALL, "up"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "up"])
def test_under_masks_the_same_sum_comes_and_no_single_part_of_it(
    command: str, run: Callable[..., Path], data: tuple[Path, ...]
) -> None:
    clear, masked = run({}), run(SECURE, command)
    counts = sum(map(training_labels, data), Counter[str]())
    assert len(set(counts.values())) > 1
    for each in (clear, masked):
        balance = json.loads((each / "class-balance.json").read_text(encoding="utf-8"))
        shares = [counts[name] / counts.total() for name in balance["classes"]]
        assert balance["shares"] == pytest.approx(shares, abs=1e-6)
    kinds = [{row.kind for row in RunDirectory.open(each).read_disclosures()} for each in (clear, masked)]
    assert [one & {"update", "masked"} for one in kinds] == [{"update"}, {"masked"}]


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_model(
    whole: Path,
    call: Called,
    programs: Path,
    variables: Mapping[str, str],
    data: tuple[Path, ...],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    command = [str(programs / "fedtag"), "simulate", *words(data, out, ALL)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while not list((out / "checkpoint").glob("round-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert not (out / "model.safetensors").exists()
    call("fedtag", "simulate", "--resume", out)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_it_predicts_and_is_compared(
    whole: Path, call: Called, data: tuple[Path, ...], tmp_path: Path
) -> None:
    call("fedtag", "predict", whole, data[0], "--out", tmp_path / "predictions.parquet")
    assert parquet.read_table(tmp_path / "predictions.parquet").num_rows == 31
    chosen = ("--methods", "class-balance", "--seeds", "1", "--clients", "2", "--partition", "random")
    call("fedtag", "compare", "--data", data[0], *chosen, *QUICK, "--out", tmp_path / "compared")
    table = (tmp_path / "compared" / "comparison.csv").read_text(encoding="utf-8")
    assert "class-balance" in {line.partition(",")[0] for line in table.splitlines()[1:]}


def own_tests(call: Called, tests: Path, chosen: str = "test") -> None:
    """Run tests of the package, from a file and of chosen names, where it is installed."""
    options = ("-c", os.devnull, "--rootdir", tests.parent, "-q", "-p", "no:cacheprovider", "-k", chosen)
    call("python", "-m", "pytest", *options, tests)


def test_its_equations_hold(call: Called, source: Path) -> None:
    own_tests(call, source / "tests" / "test_equations.py")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["method", "part", "condenser", "backbone"])
def test_it_keeps_the_contract(kind: str, call: Called, source: Path) -> None:
    own_tests(call, source / "tests" / "test_contract.py", f"the_{kind}_keeps")
