"""More rounds for a finished run: the new run is the longer run, to the bit, or says in what it is not."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import fedtag
from fedtag.audits.transcript import replayed
from fedtag.common.config import RunConfig, flatten
from fedtag.common.wire.protocol import app_settings
from fedtag.deploy.cli import app
from fedtag.errors import ConfigError, RunError
from fedtag.runs.progress import LOGGED
from fedtag.server.run.extension import opened
from fedtag.server.state.checkpoint import CHECKPOINT, CheckpointFolder
from fedtag.server.state.run_state import RunState

SMALL: dict[str, Any] = {"model.hidden": 4, "train.epochs": 1, "privacy.block-rounds": 2}
MASKED = {"privacy.secure-aggregation": True, "privacy.roster": True}
HIDDEN = {**MASKED, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "momentum, averaged": (
        "fedavg",
        {"aggregation.server-optimiser": "momentum", "aggregation.average-decay": 0.5, "evaluation.every": 3},
    ),
    "by the distribution of the last round, sampled": (
        "fedavg",
        {
            "aggregation.weights": "distribution-aware",
            "aggregation.statistics": "previous",
            "train.client-fraction": 0.6,
        },
    ),
    "hidden": ("fedavg", HIDDEN),
    "models that stay at sites": ("isolated", {}),
    "texts and selectors": ("dance", {"dance.propagated": 1, "dance.rank": 2, **MASKED}),
    "letters in every round": ("fedc4", {"condenser.outer-loops": 1, "condenser.inner-loops": 1}),
    "one condensed graph": (
        "fedgc",
        {
            "fedgc.self-training-rounds": 1,
            "fedgc.learn-from": "both",
            "fedgc.min-class-count": 1,
            "fedgc.model-steps": 10,
            "evaluation.every": 3,
        },
    ),
    "a part before round 1": (
        "fedavg",
        {"parts": "neighbour-generator", "neighbour-generator.rounds": 1, "train.client-fraction": 1.0},
    ),
}
MEASURED = ("seconds", "seconds_by_phase", "bytes_up", "bytes_down", "failed")
Simulated = Callable[..., fedtag.Run]


@pytest.fixture(scope="module")
def simulated(
    write_feature_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Simulated:
    """Runs over one small graph."""
    graph = fedtag.Graph.from_folder(write_feature_folder(tmp_path_factory.mktemp("data") / "all"))

    def run(method: str, rounds: int, settings: dict[str, Any], out: Path) -> fedtag.Run:
        given = {"clients": 3, "device": "cpu", **SMALL, **settings}
        return fedtag.simulate(graph, method, rounds=rounds, settings=given, out=out, progress=False)

    return run


@pytest.fixture(scope="module")
def finished(simulated: Simulated, tmp_path_factory: pytest.TempPathFactory) -> fedtag.Run:
    """Two rounds of one method."""
    return simulated("fedavg", 2, {}, tmp_path_factory.mktemp("runs") / "first")


def rows(run: fedtag.Run, name: str) -> list[dict[str, Any]]:
    """Of a run, without what is measured anew in every one."""
    lines = (run.path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: one for key, one in json.loads(line).items() if key not in MEASURED} for line in lines]


COSTLY = (
    "texts and selectors",
    "one condensed graph",
    "letters in every round",
    "a part before round 1",
)


@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[pytest.mark.slow] if one in COSTLY else []) for one in CASES]
)
def test_the_extended_run_is_the_longer_one_to_the_bit(
    case: str, simulated: Simulated, tmp_path: Path
) -> None:
    method, settings = CASES[case]
    whole = simulated(method, 4, settings, tmp_path / "whole")
    short = simulated(method, 2, settings, tmp_path / "short")
    before = {path: path.read_bytes() for path in short.path.rglob("*") if path.is_file()}
    longer = short.resume(rounds=4, progress=False)
    assert longer.path == tmp_path / "short-extended"
    assert rows(longer, "metrics") == rows(whole, "metrics")
    assert rows(longer, "clients") == rows(whole, "clients")
    if (whole.path / "model.safetensors").exists():
        assert longer.model.keys() == whole.model.keys()
        assert all(torch.equal(value, whole.model[name]) for name, value in longer.model.items())
    assert longer.summary["best_round"] == whole.summary["best_round"]
    # Nothing of the parent is written.
    assert {path: path.read_bytes() for path in short.path.rglob("*") if path.is_file()} == before


def test_sites_may_be_called_as_folders_inside_sites_are(
    write_feature_folder: Callable[..., Path], tmp_path: Path
) -> None:
    graphs = [
        fedtag.Graph.from_folder(write_feature_folder(tmp_path / name)) for name in ("state", "evidence")
    ]
    run = fedtag.simulate(
        graphs,
        "isolated",
        rounds=1,
        settings={"device": "cpu", **SMALL},
        out=tmp_path / "run",
        progress=False,
    )
    longer = run.resume(rounds=2, progress=False)
    assert {row["client"] for row in rows(longer, "clients")} == {"state", "evidence"}
    assert longer.summary["rounds"] == 2


def test_it_is_a_run_of_its_own_that_names_its_parent(finished: fedtag.Run, tmp_path: Path) -> None:
    longer = finished.resume(rounds=3, out=tmp_path / "longer", progress=False)
    status = [
        json.loads((one.path / "status.json").read_text(encoding="utf-8")) for one in (finished, longer)
    ]
    assert status[0]["run"] != status[1]["run"]
    parent = longer.settings["parent"]
    assert (parent["run"], parent["rounds"]) == (status[0]["run"], 2)
    told = "first, extended after its 2 rounds"
    assert told in (longer.path / "README.md").read_text(encoding="utf-8")
    assert told in longer.report().read_text(encoding="utf-8")
    assert fedtag.list_runs(tmp_path).loc["longer", "parent"] == "first"
    # It has disclosed what crossed in it; what crossed before lies with what it has of its parent.
    assert set(longer.disclosures["round"]) == {3, 4}
    assert (longer.path / "parent" / "disclosures.jsonl").read_bytes() == (
        finished.path / "disclosures.jsonl"
    ).read_bytes()
    with (
        pytest.raises(RunError, match="audit the run that was begun anew"),
        replayed(longer.path, "cpu", LOGGED),
    ):
        pass
    again = longer.resume(rounds=4, progress=False)
    assert again.settings["parent"]["rounds"] == 3
    assert again.summary["rounds"] == 4


def test_a_stopped_extension_goes_on(finished: fedtag.Run, tmp_path: Path) -> None:
    longer = finished.resume(rounds=4, out=tmp_path / "longer", progress=False)
    stopped = Path(shutil.copytree(longer.path, tmp_path / "stopped"))
    for name in ("summary.json", "model.safetensors", "checkpoint/round-0004.safetensors"):
        (stopped / name).unlink()
    fedtag.open_run(stopped).resume(progress=False)
    assert (stopped / "model.safetensors").read_bytes() == (longer.path / "model.safetensors").read_bytes()


def test_what_follows_from_the_number_of_rounds_is_told(simulated: Simulated, tmp_path: Path) -> None:
    short = simulated("fedavg", 2, {"train.schedule": "cosine"}, tmp_path / "short")
    command = ["simulate", "--resume", str(short.path), "--rounds", "3", "--out", str(tmp_path / "longer")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "train.schedule = cosine: step sizes of rounds 1 to 2" in " ".join(done.output.split())


def test_a_guarantee_is_over_both_runs(simulated: Simulated, tmp_path: Path) -> None:
    noisy = {"aggregation.weights": "uniform", "privacy.dp.mode": "central", "privacy.dp.noise": 4.0}
    short = simulated("fedavg", 2, noisy, tmp_path / "short")
    command = ["simulate", "--resume", str(short.path), "--rounds", "8", "--out", str(tmp_path / "longer")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    told = " ".join(done.output.split())
    assert "over all 8 rounds, those of the run that is extended included" in told
    longer = fedtag.open_run(tmp_path / "longer")
    one, both = short.summary["privacy"], longer.summary["privacy"]
    assert (one["rounds"], both["rounds"]) == (2, 8)
    from dp_accounting import get_epsilon_gaussian

    assert both["epsilon"] == pytest.approx(get_epsilon_gaussian(4.0 / 8**0.5, 1e-5))
    assert both["epsilon"] > one["epsilon"]


def test_what_must_not_change_is_refused_with_the_difference(finished: fedtag.Run, tmp_path: Path) -> None:
    out = tmp_path / "longer"
    base = ["simulate", "--resume", str(finished.path), "--out", str(out)]
    for options, told in (
        (["--rounds", "4", "--set", "model.hidden=16"], "model.hidden = 4 there, 16 here"),
        (["--rounds", "4", "--seed", "7"], "seed = 0 there, 7 here"),
        (["--rounds", "2"], "the run to extend has done 2 rounds, ask for more of them"),
        (["--seed", "1"], "a finished run is extended with --rounds"),
    ):
        done = CliRunner().invoke(app, [*base, *options])
        assert done.exit_code != 0
        assert told in " ".join(done.output.split()), done.output
        assert not out.exists()
    with pytest.raises(ConfigError, match="give rounds= as well"):
        finished.resume(out=out)
    stopped = Path(shutil.copytree(finished.path, tmp_path / "stopped"))
    (stopped / "summary.json").unlink()
    with pytest.raises(RunError, match="has not finished: go on with it first"):
        fedtag.open_run(stopped).resume(rounds=4)
    gone = Path(shutil.copytree(finished.path, tmp_path / "gone"))
    shutil.rmtree(gone / "checkpoint")
    with pytest.raises(RunError, match="does not hold round 2, the last one: restore it"):
        fedtag.open_run(gone).resume(rounds=4)


def test_between_machines_the_server_finds_the_run_that_is_extended(
    finished: fedtag.Run, tmp_path: Path
) -> None:
    home = tmp_path / "runs"
    home.mkdir()
    command = ["bundle", str(tmp_path / "app"), "--resume", str(finished.path), "--rounds", "4"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    table = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text(encoding="utf-8"))
    settings, _ = app_settings(flatten(table["tool"]["flwr"]["app"]["config"]))
    config = RunConfig.from_flat(settings)
    assert (config.rounds, config.parent.rounds, config.own_rounds) == (4, 2, 2)
    with pytest.raises(RunError, match="which is to be extended, is not in"):
        opened(home / "longer", config, home)
    assert list(home.iterdir()) == []
    shutil.copytree(finished.path, home / "first")
    directory = opened(home / "longer", config, home)
    found = RunState.load(CheckpointFolder(directory.path / CHECKPOINT, config.without_places().decisive()))
    assert found is not None
    assert found[0].round == 2
    assert found[0].run != config.parent.run
    with pytest.raises(RunError, match="holds an unfinished run"):
        opened(home / "longer", config, home)
    changed = RunConfig.from_flat({**settings, "train.epochs": 2})
    with pytest.raises(ConfigError, match="epochs = 1 there, 2 here"):
        opened(home / "other", changed, home)
    assert not (home / "other").exists()


def test_a_method_whose_stages_are_shares_of_all_rounds_says_so(simulated: Simulated, tmp_path: Path) -> None:
    short = simulated("da_dfgas", 2, {}, tmp_path / "short")
    with pytest.raises(ConfigError, match="share of all rounds"):
        short.resume(rounds=4)
