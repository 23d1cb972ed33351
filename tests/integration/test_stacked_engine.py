"""Clients that are trained at once come to what clients come to that are trained one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.common.models.spec import BACKBONES
from fedtag.runs.simulation import prepare, run_in_process
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.testing.graphs import odd_federation
from fedtag.testing.trial import silent

BACKBONES_THAT_STACK = [name for name, spec in BACKBONES.usable().items() if spec.stacks]
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "rounds": 4,
    "model.hidden": 5,
    "model.dropout": 0.0,
    "device": "cpu",
    "tracking.trackers": "",
}
SAME_TO = 1e-4
FIGURES = (
    "train_loss",
    "val_accuracy",
    "test_accuracy",
    "test_ece",
    "test_auroc",
    "test_auprc",
    "test_macro_f1",
)

Simulated = Callable[..., RunDirectory]


@pytest.fixture
def simulated(tmp_path: Path, one_thread: None) -> Simulated:
    """Runs a federation by an engine; further settings with underscores in place of dots and dashes are not taken."""

    def run(
        engine: str, settings: Mapping[str, Any] | None = None, graphs: Sequence[TextGraph] = ()
    ) -> RunDirectory:
        graphs = graphs or odd_federation()
        number = len(list(tmp_path.iterdir()))
        flat = {**SETTINGS, "clients": len(graphs), "engine": engine, **(settings or {})}
        source = ";".join(graph.name for graph in graphs)
        config = RunConfig.from_flat({**flat, "data.source": source, "out": str(tmp_path / f"run-{number}")})
        prepared = prepare(config, graphs)
        run_in_process(prepared, silent())
        return prepared.directory

    return run


def check_alike(stacked: RunDirectory, separate: RunDirectory) -> None:
    """Models, scores, losses and weights differ by rounding alone."""
    rows = list(zip(stacked.read_rounds(), separate.read_rounds(), strict=True))
    for one, other in rows:
        for name in (*FIGURES, "selection", "val_spread", "local_val_accuracy", "local_test_accuracy"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=SAME_TO), (one.round, name)
        assert (one.clients_ok, one.clients_failed, one.empty) == (
            other.clients_ok,
            other.clients_failed,
            other.empty,
        )
    for mine, its in zip(stacked.read_clients(), separate.read_clients(), strict=True):
        assert (mine.round, mine.client, mine.nodes, mine.train_nodes, mine.val_nodes, mine.test_nodes) == (
            its.round,
            its.client,
            its.nodes,
            its.train_nodes,
            its.val_nodes,
            its.test_nodes,
        )
        for name in (
            "val_accuracy",
            "test_accuracy",
            "test_auroc",
            "local_test_accuracy",
            "weight",
            "normaliser",
        ):
            assert getattr(mine, name) == pytest.approx(getattr(its, name), abs=SAME_TO), (mine.client, name)
        assert (mine.steps, mine.failed, mine.condensation) == (its.steps, its.failed, its.condensation)
    if (separate.path / "model.safetensors").exists():
        own, theirs = stacked.read_model(), separate.read_model()
        assert own.keys() == theirs.keys()
        for name, value in theirs.items():
            torch.testing.assert_close(own[name], value, rtol=SAME_TO, atol=SAME_TO)


@pytest.mark.parametrize("backbone", BACKBONES_THAT_STACK)
def test_every_backbone_comes_to_the_same(simulated: Simulated, backbone: str) -> None:
    own = {"model.backbone": backbone, "model.layers": 3}
    check_alike(simulated("stacked", own), simulated("separate", own))


@pytest.mark.parametrize(
    "own",
    [
        {"train.optimizer": "sgd", "train.momentum": 0.9},
        {"train.optimizer": "sgd", "train.momentum": 0.0, "train.learning-rate": 0.1},
        {"train.weight-decay": 0.1, "train.schedule": "cosine", "train.epochs": 5},
        {"method": "fedprox", "train.prox-mu": 0.5},
        {"train.client-fraction": 0.5, "rounds": 6},
        {"train.class-weights": "balanced"},
        {"train.inductive": True},
        {"aggregation.weights": "uniform", "aggregation.norm-factor": 1.01},
        {"aggregation.max-share": 0.2, "aggregation.norm-factor": 0.0},
        {"aggregation.server-optimiser": "adam", "aggregation.server-rate": 0.1},
        {"aggregation.average-decay": 0.5},
        {"evaluation.every": 2, "evaluation.local": False},
        {"evaluation.metric": "auroc"},
        {"method": "isolated"},
        {"method": "isolated", "train.client-fraction": 0.5},
        {"condenser.name": "k-center", "ratio": 0.5},
        {"model.layers": 2},
    ],
    ids=str,
)
def test_all_settings_that_go_with_it_come_to_the_same(simulated: Simulated, own: Mapping[str, Any]) -> None:
    check_alike(simulated("stacked", own), simulated("separate", own))
