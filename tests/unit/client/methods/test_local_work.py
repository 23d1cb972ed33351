"""What FedAvg and DANCE share of local training: adaptive work, deadlines, what the server is told of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from fedtag.server.strategies.weights import parse_statistics
from tests.unordered import Called

Open = Callable[..., SiteRun]
METHODS = ("fedavg", "centralised", "dance")


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site")

    def build(method: str, **changes: Any) -> SiteRun:
        flat = {"method": method, "clients": 1, "ratio": 0.2, "model.hidden": 6, "dance.propagated": 1}
        config = RunConfig.from_flat(without_foreign({**flat, **changes}))
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def initial(site: SiteRun) -> Parameters:
    config = site.config
    if config.method == "dance":
        return parameters_of(initial_dance_model(config, 8, 3))
    return parameters_of(initial_backbone(config, 8, 3))


def train(site: SiteRun, **values: Any) -> Reply:
    content = Content(prefixed("model", initial(site)), values)
    return site.respond(Instruction("run", 1, 1, "train", content))


def told(site: SiteRun, **values: Any) -> dict[str, Any]:
    return train(site, **values).content.values["training"]


@pytest.mark.parametrize("method", METHODS)
def test_effective_steps_are_told(open_site: Open, method: str) -> None:
    assert told(open_site(method)).keys() == {"loss", "steps", "normaliser"}
    assert told(open_site(method))["normaliser"] == 3
    momentum = {"train.optimizer": "sgd", "train.momentum": 0.5, "train.learning-rate": 0.01}
    assert told(open_site(method, **momentum))["normaliser"] == pytest.approx(1 + 1.5 + 1.75)


@pytest.mark.parametrize("method", METHODS)
def test_a_client_under_the_threshold_works_longer(open_site: Open, method: str) -> None:
    """The initial model is far from perfect and cannot be under 0."""
    extra = {"train.extra-epochs": 4}
    longer = told(open_site(method, **extra, **{"train.accuracy-threshold": 1.0}))
    assert longer["steps"] == longer["normaliser"] == 7
    assert told(open_site(method, **extra, **{"train.accuracy-threshold": 1e-9}))["steps"] == 3


@pytest.mark.parametrize("method", METHODS)
def test_the_threshold_changes_nothing_but_the_steps(open_site: Open, method: str) -> None:
    """Looking at the accuracy draws nothing at random."""
    plain = train(open_site(method)).content
    watched = train(open_site(method, **{"train.accuracy-threshold": 1e-9, "train.extra-epochs": 4})).content
    assert plain.values["training"] == watched.values["training"]
    for name, value in plain.section("update").items():
        assert torch.equal(value, watched.section("update")[name])


@pytest.mark.parametrize("method", METHODS)
def test_work_ends_at_the_deadline_after_at_least_one_step(open_site: Open, method: str) -> None:
    site = open_site(method, **{"train.epochs": 50})
    cut = train(site, training_seconds=0.0)
    assert cut.content.values["training"]["steps"] == 1
    assert cut.content.section("update").keys() == initial(site).keys()
    assert told(site, training_seconds=1e6)["steps"] == 50
    assert told(site, training_seconds=None)["steps"] == 50


@pytest.mark.parametrize("method", METHODS)
def test_statistics_are_sent_only_where_weights_need_them(open_site: Open, method: str) -> None:
    assert "statistics" not in train(open_site(method)).content.values
    aware = train(open_site(method, **{"aggregation.weights": "distribution-aware"})).content
    parsed = parse_statistics(aware.values["statistics"], 3)
    assert parsed.accuracy is not None
    plain = train(open_site(method)).content
    for name, value in plain.section("update").items():
        assert torch.equal(value, aware.section("update")[name])


@pytest.mark.parametrize("method", METHODS)
def test_statistics_are_those_of_the_trained_model(open_site: Open, method: str) -> None:
    """Scoring the model that training led to gives the same accuracy and the same mix of predictions."""
    changes = {"aggregation.weights": "distribution-aware", "train.epochs": 30}
    site = open_site(method, **changes)
    reply = train(site).content
    trained = {name: value + reply.section("update")[name] for name, value in initial(site).items()}
    content = Content(prefixed("model", trained), {"evaluate": True})
    scored = site.respond(Instruction("run", 2, 2, "score", content)).content.section("scores")
    path = "evidence" if method == "dance" else "graph"
    confusion = scored[f"{path}/val/confusion"]
    expected = int(confusion.trace()) / int(confusion.sum())
    assert reply.values["statistics"]["accuracy"] == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_what_is_ordered_adds_in_one_order(open_site: Open, method: str) -> None:
    """Gradients go to one row each, and links of a core add two weights."""
    site = open_site(method)
    assert site.config.spec.traits.ordered
    with Called() as called:
        train(site)
    assert max(called.most.values(), default=0) <= 2
