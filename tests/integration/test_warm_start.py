"""Training on from a released model, with other data, sites or settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import fedtag
from fedtag.audits.transcript import replayed
from fedtag.deploy.cli import app
from fedtag.errors import ConfigError, RunError
from fedtag.runs.progress import LOGGED

SMALL: dict[str, Any] = {"model.hidden": 8, "train.epochs": 1}
Parents = dict[str, fedtag.Run]
STILL = {**SMALL, "train.learning-rate": 1e-12}
"""With which a model stays where it is, as far as float32 tells."""


@pytest.fixture(scope="module")
def graphs(
    write_feature_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[fedtag.Graph, fedtag.Graph]:
    folder = tmp_path_factory.mktemp("warm")
    first, second = (write_feature_folder(folder / f"site-{seed}", seed=seed) for seed in (0, 1))
    return fedtag.Graph.from_folder(first), fedtag.Graph.from_folder(second)


@pytest.fixture(scope="module")
def parents(
    graphs: tuple[fedtag.Graph, fedtag.Graph], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, fedtag.Run]:
    folder = tmp_path_factory.mktemp("parents")
    return {
        method: fedtag.simulate(graphs[0], method, clients=2, rounds=2, settings=SMALL, out=folder / method)
        for method in ("fedavg", "dance")
    }


@pytest.mark.parametrize("method", ["fedavg", "dance"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_run_begins_with_the_released_model(
    graphs: tuple[fedtag.Graph, ...],
    parents: Parents,
    method: str,
    masked: bool,
    tmp_path: Path,
) -> None:
    settings = {**STILL, "privacy.secure-aggregation": masked, "seed": 5}
    run = fedtag.simulate(
        graphs[1], method, clients=3, rounds=1, settings=settings, start=parents[method], out=tmp_path / "run"
    )
    before, after = parents[method].model, run.model
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-3) for name in before)
    anew = fedtag.simulate(graphs[1], method, clients=3, rounds=1, settings=settings, out=tmp_path / "anew")
    assert not all(torch.allclose(before[name], anew.model[name], atol=1e-3) for name in before)


def test_it_learns_on_with_another_method_and_names_its_parent(
    graphs: tuple[fedtag.Graph, ...], parents: Parents, tmp_path: Path
) -> None:
    parent = parents["fedavg"]
    options = ["--data", graphs[1].source, "--method", "fedprox", "--clients", "2", "--rounds", "2"]
    changes = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    command = ["simulate", *options, *changes, "--from", str(parent.path), "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run = fedtag.open_run(tmp_path / "run")
    named = run.settings["parent"]["model"]
    assert len(named) == 64
    told = f"fedavg, round {parent.summary['best_round']}, model {named[:12]}"
    assert told in (run.path / "README.md").read_text(encoding="utf-8")
    assert named[:12] in run.report().read_text(encoding="utf-8")
    same = fedtag.simulate(
        graphs[1], "fedprox", clients=2, rounds=2, settings=SMALL, start=parent.path, out=tmp_path / "same"
    )
    assert all(torch.equal(value, same.model[name]) for name, value in run.model.items())


def test_a_stopped_one_goes_on_without_its_parent(
    graphs: tuple[fedtag.Graph, ...], parents: Parents, tmp_path: Path
) -> None:
    parent = Path(shutil.copytree(parents["fedavg"].path, tmp_path / "parent"))
    given = {"clients": 2, "settings": SMALL, "start": parent}
    whole = fedtag.simulate(graphs[1], "fedavg", rounds=3, out=tmp_path / "whole", **given)
    first = fedtag.simulate(graphs[1], "fedavg", rounds=3, out=tmp_path / "run", **given)
    shutil.rmtree(parent)
    (first.path / "summary.json").unlink()
    # The checkpoint has what was taken from it.
    shutil.rmtree(first.path / "parent")
    for file in (first.path / "checkpoint").glob("round-*3*"):
        file.unlink()
    first.resume()
    assert (first.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model.hidden": 16}, "model.hidden: 16 here, 8 there"),
        ({"model.backbone": "sage"}, "model.backbone: sage here, gcn there"),
        ({"method": "dance"}, "missing there"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_difference(
    graphs: tuple[fedtag.Graph, ...],
    parents: Parents,
    settings: dict[str, Any],
    told: str,
    tmp_path: Path,
) -> None:
    changed = {**SMALL, **settings}
    method = changed.pop("method", "fedavg")
    with pytest.raises(ConfigError, match=told):
        fedtag.simulate(
            graphs[1], method, clients=2, settings=changed, start=parents["fedavg"], out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_other_hops_are_refused_though_no_parameter_tells_of_them(
    graphs: tuple[fedtag.Graph, ...], tmp_path: Path
) -> None:
    sgc = {**SMALL, "model.backbone": "sgc"}
    parent = fedtag.simulate(graphs[0], "fedavg", clients=2, rounds=1, settings=sgc, out=tmp_path / "parent")
    further = {"clients": 2, "rounds": 1, "start": parent}
    with pytest.raises(ConfigError, match=r"sgc\.hops: 3 here, 2 there"):
        fedtag.simulate(
            graphs[1], "fedavg", settings={**sgc, "sgc.hops": 3}, out=tmp_path / "other", **further
        )
    assert fedtag.simulate(graphs[1], "fedavg", settings=sgc, out=tmp_path / "same", **further).summary


def test_other_classes_or_features_are_refused(
    graphs: tuple[fedtag.Graph, ...], parents: Parents, tmp_path: Path
) -> None:
    nodes, features = graphs[1].nodes, graphs[1].text_graph.features
    assert features is not None
    columns = {"id": "id", "label": "label", "split": "split", "src": "src", "dst": "dst"}
    more = fedtag.Graph.from_pandas(
        nodes, graphs[1].edges, features=features, classes=["c", "b", "a"], **columns
    )
    wide = fedtag.Graph.from_pandas(nodes, graphs[1].edges, features=features.repeat(2, 1), **columns)
    for graph, told in ((more, "classes: c, b, a here, a, b, c there"), (wide, "features: 16 here, 8 there")):
        with pytest.raises(ConfigError, match=told):
            fedtag.simulate(
                graph, "fedavg", clients=2, settings=SMALL, start=parents["fedavg"], out=tmp_path / "run"
            )
    with pytest.raises(RunError, match="is no run directory"):
        fedtag.simulate(graphs[1], "fedavg", clients=2, settings=SMALL, start=tmp_path, out=tmp_path / "run")


def test_a_guarantee_would_leave_out_what_the_parent_tells(
    graphs: tuple[fedtag.Graph, ...], parents: Parents, tmp_path: Path
) -> None:
    noise = {"aggregation.weights": "uniform", "privacy.dp.mode": "central", "privacy.dp.noise": 1.0}
    with pytest.raises(ConfigError, match="would leave out what the released model tells"):
        fedtag.simulate(
            graphs[1],
            "fedavg",
            clients=2,
            settings={**SMALL, **noise},
            start=parents["fedavg"],
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_an_audit_does_such_a_run_again(
    graphs: tuple[fedtag.Graph, ...], parents: Parents, tmp_path: Path
) -> None:
    given = {"clients": 2, "rounds": 1, "settings": SMALL}
    run = fedtag.simulate(graphs[1], "fedavg", start=parents["fedavg"], out=tmp_path / "run", **given)
    with replayed(run.path, "cpu", LOGGED) as again:
        assert again.config.parent.model == run.settings["parent"]["model"]
        assert len(again.sites) == 2


def test_a_part_is_trained_anew_around_the_released_model(
    graphs: tuple[fedtag.Graph, ...], tmp_path: Path
) -> None:
    settings = {**SMALL, "parts": "neighbour-generator", "neighbour-generator.rounds": 1}
    given = {"clients": 2, "rounds": 1, "settings": settings}
    parent = fedtag.simulate(graphs[0], "fedavg", out=tmp_path / "parent", **given)
    run = fedtag.simulate(graphs[1], "fedavg", start=parent, out=tmp_path / "run", **given)
    assert run.model.keys() == parent.model.keys()


def test_the_parent_is_named_by_the_command_and_by_no_setting(
    graphs: tuple[fedtag.Graph, ...], tmp_path: Path
) -> None:
    for key, value in {"parent.model": "0" * 64, "resume": True, "data.source": "elsewhere"}.items():
        with pytest.raises(ConfigError, match=f"settings: {key} cannot be set here"):
            fedtag.simulate(graphs[0], "fedavg", settings={key: value}, out=tmp_path / "run")
