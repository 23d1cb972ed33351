"""Clients that are trained at once come to what clients come to that are trained one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, DivergenceError
from fedtag.common.models.spec import BACKBONES
from fedtag.deploy.federation.bundle import write_app
from fedtag.runs.simulation import PreparedRun, prepare, reopen, run_in_process
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.testing.graphs import federation, odd_federation
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
def prepared(tmp_path: Path, one_thread: None) -> Callable[..., PreparedRun]:
    """Prepares a run over institutions of which most lack something, or over others."""

    def prepare_(
        engine: str, own: Mapping[str, Any] | None = None, graphs: Sequence[TextGraph] = ()
    ) -> PreparedRun:
        graphs = graphs or odd_federation()
        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        source = ";".join(graph.name for graph in graphs)
        flat = {**SETTINGS, "clients": len(graphs), "engine": engine, **(own or {})}
        return prepare(RunConfig.from_flat({**flat, "data.source": source, "out": str(out)}), graphs)

    return prepare_


@pytest.fixture
def simulated(prepared: Callable[..., PreparedRun]) -> Simulated:
    """The same, carried out."""

    def run(*arguments: Any) -> RunDirectory:
        made = prepared(*arguments)
        run_in_process(made, silent())
        return made.directory

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


@pytest.mark.parametrize(
    "own",
    [
        {"model.dropout": 0.5},
        {"method": "isolated", "model.dropout": 0.5, "train.client-fraction": 0.5},
        {"aggregation.server-optimiser": "adam", "aggregation.average-decay": 0.5},
    ],
    ids=str,
)
def test_a_stopped_run_goes_on_to_the_same_bits(
    simulated: Simulated, prepared: Callable[..., PreparedRun], own: Mapping[str, Any]
) -> None:
    whole, made = simulated("stacked", {**own, "rounds": 13}), prepared("stacked", {**own, "rounds": 13})
    with pytest.raises(KeyboardInterrupt):
        run_in_process(made, silent(stopping=True))
    assert len(made.directory.read_rounds()) < 13
    run_in_process(reopen(made.directory.path), silent())
    again = RunDirectory.open(made.directory.path)
    for one, other in zip(whole.read_rounds(), again.read_rounds(), strict=True):
        assert [getattr(one, name) for name in FIGURES] == [getattr(other, name) for name in FIGURES]
    mine, its = whole.read_clients(), again.read_clients()
    assert [(row.client, row.test_accuracy, row.steps) for row in mine] == [
        (row.client, row.test_accuracy, row.steps) for row in its
    ]
    if (whole.path / "model.safetensors").exists():
        assert (whole.path / "model.safetensors").read_bytes() == (
            again.path / "model.safetensors"
        ).read_bytes()


def test_it_is_named_and_tells_what_would_have_crossed(simulated: Simulated) -> None:
    own = {"train.client-fraction": 0.5}
    stacked, separate = (simulated(engine, own, federation()) for engine in ("stacked", "separate"))
    summary = stacked.read_summary()
    assert summary is not None
    assert summary.engine == "stacked"
    assert "no message crossed" in (stacked.path / "README.md").read_text(encoding="utf-8")
    assert "no message crossed" in (stacked.path / "report.html").read_text(encoding="utf-8")
    assert "no message crossed" not in (separate.path / "report.html").read_text(encoding="utf-8")

    def told(run: RunDirectory) -> set[tuple[Any, ...]]:
        # Of what says durations the digits count, and introductions come in an exchange of their own.
        rows = [row for row in run.read_disclosures() if row.phase != "score"]
        kinds = {"model", "update", "scores", "sizes"}
        return {
            (row.round, row.phase, row.kind, row.senders, row.receivers, row.bytes)
            for row in rows
            if row.kind in kinds and row.round > 1
        }

    assert told(stacked) == told(separate)
    for one, other in zip(stacked.read_rounds()[1:], separate.read_rounds()[1:], strict=True):
        assert 0 < one.bytes_up < other.bytes_up
        assert 0 < one.bytes_down < other.bytes_down


def test_a_client_that_diverges_is_named(simulated: Simulated) -> None:
    own = {"train.learning-rate": 1e30, "train.optimizer": "sgd"}
    with pytest.raises(DivergenceError, match=r"diverged at site-0 in round 1 .* lower train.learning-rate"):
        simulated("stacked", own, federation())


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"method": "dance"}, "clients of method dance do more .* choose one of .*fedavg"),
        ({"method": "fedgc"}, "clients of method fedgc do more"),
        ({"parts": "neighbour-generator"}, "does not go with parts = neighbour-generator"),
        ({"train.batch-size": 64}, "does not go with train.batch-size = 64, since all whole graphs"),
        ({"train.batch-size": "auto"}, "does not go with train.batch-size = auto"),
        ({"train.accuracy-threshold": 0.5}, "does not go with train.accuracy-threshold = 0.5"),
        ({"aggregation.weights": "distribution-aware"}, "aggregation.weights = distribution-aware"),
        ({"aggregation.rule": "median"}, "aggregation.rule = median, since nobody looks at single updates"),
        ({"aggregation.normalise": "fednova"}, "aggregation.normalise = fednova"),
        ({"aggregation.max-update-norm": 3.0}, "aggregation.max-update-norm = 3.0"),
        (
            {"privacy.secure-aggregation": True},
            "privacy.secure-aggregation = true, since there are no messages",
        ),
        ({"privacy.dp.mode": "central", "aggregation.weights": "uniform"}, "privacy.dp.mode = central"),
        ({"model.backbone": "monet"}, "backbone monet uses parameters with more than rows of nodes"),
        ({"condenser.name": "dance-core"}, "condenser dance-core makes other examples in every round"),
    ],
    ids=str,
)
def test_all_else_is_refused_with_the_remedy(own: Mapping[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"engine = stacked.*{sentence}") as refused:
        RunConfig.from_flat({"method": "fedavg", "engine": "stacked", **own})
    assert "set engine = separate" in str(refused.value)
    RunConfig.from_flat({"method": "fedavg", **own})


def test_clients_with_processes_of_their_own_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="engine = stacked trains all clients in one process, and here each has"
    ):
        write_app(tmp_path / "app", {"method": "fedavg", "engine": "stacked"})
    assert not (tmp_path / "app").exists()


def test_seconds_are_counted_once(simulated: Simulated) -> None:
    began = time.monotonic()
    rows = simulated("stacked", {"rounds": 25}, federation()).read_rounds()
    assert sum(row.seconds for row in rows) <= time.monotonic() - began
    assert all(row.seconds_by_phase["train"] > 0 for row in rows)
    shares = [row.seconds_by_phase["train"] for row in rows[:10]]
    assert max(shares) == min(shares)
