"""Clients that lack something take part like all others, in every method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.wire.records import prefixed

GraphOf = Callable[..., TextGraph]
Federate = Callable[..., Any]


def without(graph: TextGraph, split: int) -> TextGraph:
    return replace(graph, split=np.where(graph.split == split, NONE, graph.split).astype(np.int8))


def without_edges(graph: TextGraph) -> TextGraph:
    return replace(graph, edges=np.zeros((0, 2), np.int64), edge_weights=np.zeros(0, np.float32))


def odd_clients(graph_of: GraphOf) -> list[TextGraph]:
    lonely = graph_of("single", 1)
    return [
        graph_of("plain", 30),
        without(graph_of("no-training", 15, 1), TRAIN),
        replace(graph_of("one-class", 15, 2), labels=np.full(15, 1)),
        without_edges(graph_of("isolated-nodes", 15, 3)),
        without(graph_of("no-test", 15, 4), TEST),
        without(graph_of("no-validation", 15, 5), VAL),
        lonely,
        replace(lonely, name="single-unlabelled", labels=np.array([-1]), split=np.array([NONE], np.int8)),
    ]


@pytest.fixture(scope="session")
def odd_run(method: dict[str, Any], federate: Federate, graph_of: GraphOf) -> Any:
    if method["method"] == "centralised":
        pytest.skip("a pooled method has one client, which has its own test")
    return federate(method, odd_clients(graph_of), rounds=2)


def test_all_clients_take_part(odd_run: Any) -> None:
    assert [(row["clients_ok"], row["clients_failed"]) for row in odd_run.rows] == [(8, 0), (8, 0)]
    assert all(row["failed"] is None for row in odd_run.clients)


def test_nothing_that_is_written_or_sent_is_nan(
    odd_run: Any, numbers_in: Callable[[Path], list[float]]
) -> None:
    assert all(map(math.isfinite, numbers_in(odd_run.path)))
    for reply in odd_run.replies:
        assert all(bool(value.isfinite().all()) for value in reply.content.tensors.values())


def test_weights_follow_training_nodes(odd_run: Any) -> None:
    if odd_run.config.method == "isolated":
        pytest.skip("nothing is averaged")
    for row in odd_run.clients:
        if row["train_nodes"] == 0:
            assert row["weight"] == 0
    for number in (1, 2):
        assert sum(row["weight"] for row in odd_run.clients if row["round"] == number) == pytest.approx(1)


def test_scores_are_empty_where_nothing_can_be_scored(odd_run: Any) -> None:
    hidden = odd_run.config.privacy.hide_statistics
    for row in odd_run.clients:
        if hidden:
            assert (row["test_accuracy"], row["val_accuracy"], row["test_nodes"]) == (None, None, None)
            continue
        assert (row["test_accuracy"] is None) == (row["test_nodes"] == 0)
        assert (row["val_accuracy"] is None) == (row["val_nodes"] == 0)
    assert odd_run.summary.test_accuracy is not None


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat", "tagcn", "mlp"])
def test_every_backbone_takes_odd_clients(backbone: str, federate: Federate, graph_of: GraphOf) -> None:
    run = federate({"method": "fedavg", "model.backbone": backbone}, odd_clients(graph_of), rounds=2)
    assert [row["clients_failed"] for row in run.rows] == [0, 0]
    assert all(bool(value.isfinite().all()) for value in run.state.values())


@pytest.mark.parametrize("name", ["fedavg", "centralised", "dance", "isolated"])
def test_without_any_training_node_rounds_are_empty_and_the_model_stays(
    name: str, federate: Federate, graph_of: GraphOf, numbers_in: Callable[[Path], list[float]]
) -> None:
    clients = 1 if name == "centralised" else 2
    graphs = [without(graph_of(f"site-{k}", 15, k), TRAIN) for k in range(clients)]
    run = federate({"method": name}, graphs, rounds=2)
    assert [row["empty"] for row in run.rows] == [name != "isolated"] * 2
    assert [row["train_loss"] for row in run.rows] == [None, None]
    assert [row["clients_failed"] for row in run.rows] == [0, 0]
    assert all(map(math.isfinite, numbers_in(run.path)))
    if name in ("fedavg", "centralised"):
        initial = parameters_of(initial_backbone(run.config, 6, 3))
        assert fingerprint(run.state) == fingerprint(prefixed("model", initial))
    first, second = run.rows
    assert first["test_accuracy"] == second["test_accuracy"]


@pytest.mark.parametrize("odd", range(8))
def test_an_odd_client_can_be_the_only_one(odd: int, federate: Federate, graph_of: GraphOf) -> None:
    graph = odd_clients(graph_of)[odd]
    for name in ("centralised", "dance"):
        run = federate({"method": name}, [graph], rounds=1)
        assert run.rows[0]["clients_failed"] == 0


def test_a_federation_without_validation_nodes_still_ends(federate: Federate, graph_of: GraphOf) -> None:
    graphs = [without(graph_of(f"site-{k}", 15, k), VAL) for k in range(2)]
    run = federate({"method": "dance"}, graphs, rounds=2)
    assert run.summary.val_accuracy is None
    assert run.summary.best_round == 2
    assert run.summary.test_accuracy == run.rows[0]["test_accuracy"]
