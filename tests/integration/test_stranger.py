"""A method, a part, a condenser and a backbone from another package: what is built in knows nothing of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from fedtag.server.tracking.run_directory import RunDirectory
from tests.stranger.combinations import CHOSEN, COMBINATIONS

REPOSITORY = Path(__file__).resolve().parents[2]
STRANGER = REPOSITORY / "tests" / "stranger"
PACKAGE = tomllib.loads((STRANGER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
QUICK = ("--rounds", "3", "--set", "ratio=0.2", "--set", "model.hidden=8", "--set", "device=cpu")
ALL = {"parts": "feature-noise", "condenser.name": "hardest", "model.backbone": "twice-linear"}
SECURE = "privacy.secure-aggregation=true"
IN_DEFAULT_SUITE = 2
"""Combinations of which the contract is asked without `slow`."""

Fedtag = Callable[..., str]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A path on which the package lies as it does after an installation."""
    place = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(STRANGER / "fedtag_stranger", place / "fedtag_stranger")
    info = place / f"fedtag_stranger-{PACKAGE['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {PACKAGE['name']}\nVersion: {PACKAGE['version']}\n"
    )
    groups = PACKAGE["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in groups
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{REPOSITORY}", "NO_COLOR": "1", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def sites(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> Mapping[str, Path]:
    place = tmp_path_factory.mktemp("sites")
    return {
        f"site-{k}": write_feature_folder(place / f"site-{k}", nodes=30 + 6 * k, seed=k) for k in range(3)
    }


@pytest.fixture(scope="module")
def fedtag(environment: Mapping[str, str]) -> Fedtag:
    """The command line; its output, errors included."""

    def called(*arguments: object, code: int = 0) -> str:
        command = [sys.executable, "-m", "fedtag.deploy.cli", *map(str, arguments)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return called


@pytest.fixture(scope="module")
def simulate(fedtag: Fedtag, sites: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable:
    def run(*settings: str, method: str = "class-balance") -> RunDirectory:
        out = tmp_path_factory.mktemp("runs") / "run"
        data = [option for folder in sites.values() for option in ("--data", folder)]
        given = [option for one in settings for option in ("--set", one)]
        fedtag("simulate", "--method", method, *data, *QUICK, *given, "--out", out)
        return RunDirectory(out, resume=True)

    return run


@pytest.fixture(scope="module")
def whole(simulate: Callable[..., RunDirectory]) -> RunDirectory:
    """A run made of all that the package brings."""
    return simulate(*(f"{key}={value}" for key, value in ALL.items()), "twice-linear.restart=0.5")


def test_all_of_it_is_listed_with_its_settings(fedtag: Fedtag) -> None:
    listed, described, settings = fedtag("methods"), fedtag("methods", "class-balance"), fedtag("settings")
    for name in ("class-balance", "feature-noise", "hardest", "twice-linear"):
        assert name in listed
    assert "King and Zeng" in described
    assert "label_weight" in described
    for key in ("class-balance.smoothing", "feature-noise.deviation", "twice-linear.restart"):
        assert key in settings


def test_report_card_columns_and_disclosures_follow_from_what_it_says(whole: RunDirectory) -> None:
    page = (whole.path / "report.html").read_text(encoding="utf-8")
    card = (whole.path / "README.md").read_text(encoding="utf-8")
    assert "Balance of classes" in page
    assert "class-balance" in card
    assert "fedtag-stranger" in card
    assert card.startswith("# class-balance on site-0, site-1, site-2\n")
    rows = [json.loads(line) for line in (whole.path / "clients.jsonl").read_text().splitlines()]
    assert all(row["label_weight"] > 0 for row in rows if row["round"] == 1)
    assert all(row["condensation"]["copied"] == 1 for row in rows if row["round"] == 1)
    kinds = {row.kind for row in whole.read_disclosures()}
    assert {"balance", "label_weight"} <= kinds
    assert whole.read_config()["twice-linear"]["restart"] == 0.5


def test_under_masks_the_same_sum_comes_and_no_single_part_of_it(
    simulate: Callable[..., RunDirectory],
) -> None:
    clear, masked = simulate(), simulate(SECURE)
    one, other = (
        json.loads((run.path / "class-balance.json").read_text(encoding="utf-8")) for run in (clear, masked)
    )
    assert one["classes"] == other["classes"]
    assert other["shares"] == pytest.approx(one["shares"], abs=1e-6)
    counted = [
        row for row in masked.read_disclosures() if row.round == 0 and row.kind in ("update", "masked")
    ]
    assert {row.kind for row in counted} <= {"masked"}
    assert {row.kind for row in clear.read_disclosures()} & {"update"}


def test_a_killed_run_goes_on_to_the_same_model(
    whole: RunDirectory,
    fedtag: Fedtag,
    environment: Mapping[str, str],
    sites: Mapping[str, Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    data = [option for folder in sites.values() for option in ("--data", str(folder))]
    given = [option for key, value in ALL.items() for option in ("--set", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "fedtag.deploy.cli",
        "simulate",
        "--method",
        "class-balance",
        *data,
        *QUICK,
    ]
    command += [*given, "--set", "twice-linear.restart=0.5", "--out", str(out)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while not list((out / "checkpoint").glob("round-*")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    fedtag("simulate", "--resume", out)
    assert (out / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_it_predicts_and_is_compared(
    whole: RunDirectory, fedtag: Fedtag, sites: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = next(iter(sites.values()))
    fedtag("predict", whole.path, folder, "--out", tmp_path / "predictions.parquet")
    assert parquet.read_table(tmp_path / "predictions.parquet").num_rows == 30
    chosen = ("--methods", "class-balance", "--seeds", "1", "--clients", "2", "--partition", "random")
    fedtag("compare", "--data", folder, *chosen, *QUICK, "--out", tmp_path / "compared")
    table = (tmp_path / "compared" / "comparison.csv").read_text(encoding="utf-8")
    assert "class-balance" in table


@pytest.mark.parametrize(
    "combination",
    [
        pytest.param(name, marks=[] if place < IN_DEFAULT_SUITE else pytest.mark.slow)
        for place, name in enumerate(COMBINATIONS)
    ],
)
def test_it_keeps_the_contract(environment: Mapping[str, str], combination: str, tmp_path: Path) -> None:
    """The suite of the built-in methods, in a process that has the package."""
    (tmp_path / "conftest.py").write_text("from tests.stranger.combinations import *\n")
    (tmp_path / "test_contract.py").write_text(
        "from tests.contract.test_methods import *\n"
        "from tests.contract.test_prediction import *\n"
        "from tests.contract.test_partitions import (\n"
        "    odd_run,\n"
        "    test_all_clients_take_part,\n"
        "    test_nothing_that_is_written_or_sent_is_nan,\n"
        "    test_scores_are_empty_where_nothing_can_be_scored,\n"
        "    test_weights_follow_training_nodes,\n"
        ")\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-q",
        "--tb=short",
    ]
    command += ["--import-mode=importlib", "-p", "no:cacheprovider", "-x", str(tmp_path)]
    chosen = {**environment, CHOSEN: combination}
    done = subprocess.run(command, cwd=tmp_path, env=chosen, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 10, done.stdout
