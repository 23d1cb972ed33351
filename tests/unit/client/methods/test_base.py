"""What the base does for every method, against plain loops; and what a variant may override."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod, Handler
from fedtag.client.methods.fedavg import METHOD
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import Training
from fedtag.common.config import RunConfig
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content, prefixed
from tests.exchanges import context_of

Open = Callable[..., SiteRun]


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    folder = write_feature_folder(tmp_path / "site")

    def build(name: str = "site", **changes: Any) -> SiteRun:
        config = RunConfig.from_flat({"method": "fedavg", "model.hidden": 8, **changes})
        return SiteRun(Site(name, folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def fresh(site: SiteRun) -> Any:
    return METHOD.model(site.data, context_of(site))


def examples(site: SiteRun) -> Any:
    return METHOD.examples(fresh(site), site.data, context_of(site))[0]


def train(site: SiteRun, model: Any, learned: Any, number: int = 1) -> Training:
    return METHOD.trained(model, learned, site.data, context_of(site, number))


def trained(site: SiteRun, number: int = 1) -> str:
    model = fresh(site)
    train(site, model, examples(site), number)
    return fingerprint(parameters_of(model))


def test_training_without_dropout_is_a_plain_loop(open_site: Open) -> None:
    site = open_site(**{"model.dropout": 0.0, "train.epochs": 4, "train.learning-rate": 0.05})
    model, plain = fresh(site), fresh(site)
    told = train(site, model, examples(site))
    graph = site.data.graph
    stepper = torch.optim.Adam(plain.parameters(), lr=0.05, weight_decay=5e-4)
    for _ in range(4):
        stepper.zero_grad()
        logits = plain(graph.x, graph.adjacency())
        loss = functional.cross_entropy(logits[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        stepper.step()
    assert told.loss == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_dropout_depends_on_seed_round_and_client_only(open_site: Open) -> None:
    assert trained(open_site()) == trained(open_site())
    distinct = {
        trained(open_site()),
        trained(open_site(), 2),
        trained(open_site("other")),
        trained(open_site(seed=1)),
    }
    assert len(distinct) == 4


def test_scores_are_those_of_the_model_without_dropout(open_site: Open) -> None:
    site = open_site()
    model = fresh(site)
    train(site, model, examples(site))
    graph = site.data.graph
    content = Content(prefixed("model", parameters_of(model)), {"evaluate": True})
    told = METHOD.respond(site.data, context_of(site, 2, "score", content)).section("scores")
    predicted = model(graph.x, graph.adjacency()).argmax(1)
    right = int((predicted == graph.y)[graph.test_mask].sum())
    assert int(told["graph/test/confusion"].trace()) == right
    assert not any(value.requires_grad for value in told.values())


def test_training_learns(open_site: Open) -> None:
    site = open_site(**{"train.epochs": 30})
    model = fresh(site)
    told = train(site, model, examples(site))
    assert told.loss < 0.7


def test_examples_decide_what_is_learned(open_site: Open) -> None:
    site = open_site(**{"model.dropout": 0.0})
    graph = site.data.graph
    nodes = graph.train_mask.nonzero().squeeze(1)
    condensed = Condensed.without_links(graph.x[nodes], graph.y[nodes], copies=True)
    model, plain = fresh(site), fresh(site)
    told = train(site, model, Examples.of_condensed(condensed))
    alone = normalised_adjacency(graph.edge_index[:, :0], nodes.numel())
    stepper = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(site.config.train.epochs):
        stepper.zero_grad()
        loss = functional.cross_entropy(plain(graph.x[nodes], alone), graph.y[nodes])
        loss.backward()
        stepper.step()
    assert told.loss == pytest.approx(loss.item(), rel=1e-5)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_nothing_is_learned_without_training_nodes(open_site: Open) -> None:
    site = open_site()
    table = site.site.folder / "nodes.csv"
    table.write_text(table.read_text().replace(",train", ","))
    content = METHOD.respond(site.data, context_of(site))
    assert not content.tensors
    assert content.values.keys() == {"sizes", "initial"}


class Doubled(ClientMethod[None]):
    """Trains with twice the loss, scores two ways, judges by half of the validation nodes, and has a phase more."""

    trained_by = "twice"

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), "greet": lambda data, context: Content({}, {"greeting": context.phase})}

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Callable[[], Tensor]:
        plain = super().loss(model, examples, generator)
        return lambda: 2 * plain()

    def logits(self, model: Any, data: SiteData, context: RunContext[None]) -> dict[str, Tensor]:
        once = model(data.graph.x, data.adjacency)
        return {"graph": once, "twice": 2 * once}

    def judges(self, data: SiteData, context: RunContext[None]) -> Tensor:
        nodes = data.graph.val_mask.nonzero().flatten()
        return data.graph.val_mask.index_fill(0, nodes[::2], False)


def test_a_variant_is_scored_trained_and_asked_by_what_it_overrides(open_site: Open) -> None:
    site, method = (
        open_site(**{"train.optimizer": "sgd", "train.epochs": 1, "train.momentum": 0.0}),
        Doubled(),
    )
    model = parameters_of(fresh(site))
    values = {"evaluate": True, "evaluate_local": True}
    context = context_of(site, content=Content(prefixed("model", model), values))
    found, plain = method.respond(site.data, context), METHOD.respond(site.data, context)
    assert {name.partition("/")[0] for name in found.section("scores")} == {"graph", "twice", "local"}
    assert found.values["sizes"]["val_nodes"] == 6
    for name in ("graph/val", "local/val"):
        assert int(found.section("scores")[f"{name}/confusion"].sum()) == 6
    assert found.values["training"]["loss"] == pytest.approx(2 * plain.values["training"]["loss"])
    greeting = method.respond(site.data, context_of(site, phase="greet"))
    assert greeting.values["greeting"] == "greet"
    released = ReleasedModel(model, 1, "twice")
    said = method.predict(released, site.data, context_of(site)).logits
    torch.testing.assert_close(said, 2 * fresh(site)(site.data.graph.x, site.data.adjacency))


BATCHES = {"train.batch-size": 5, "train.fan-out": 2, "model.dropout": 0.5}


def test_an_epoch_has_a_step_for_each_batch(open_site: Open) -> None:
    """Repeated, in another process, to the bit; another round draws something else."""
    site = open_site(**BATCHES)
    labelled = int(site.data.graph.train_mask.sum())
    done = train(site, fresh(site), examples(site))
    assert done.steps == site.config.train.epochs * -(-labelled // 5) > site.config.train.epochs
    assert done.normaliser == done.steps
    again = open_site(**BATCHES)
    assert trained(site) == trained(again)
    assert trained(site) not in (trained(again, 2), trained(open_site(**{**BATCHES, "train.fan-out": 0})))


def test_a_graph_that_is_no_larger_than_a_batch_is_taken_whole(open_site: Open) -> None:
    nodes = open_site().data.graph.num_nodes
    whole = trained(open_site())
    assert trained(open_site(**{"train.batch-size": nodes, "train.fan-out": 1})) == whole
    assert trained(open_site(**{"train.batch-size": nodes - 1, "train.fan-out": 1})) != whole


def test_scores_and_predictions_in_parts_are_those_of_the_whole(open_site: Open) -> None:
    whole, parts = open_site(), open_site(**BATCHES)
    one, other = (METHOD.scores(site.data, context_of(site)) for site in (whole, parts))
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-4)
    released = ReleasedModel(parameters_of(fresh(whole)), 1, "graph")
    said, again = (METHOD.predict(released, site.data, context_of(site)) for site in (whole, parts))
    torch.testing.assert_close(again.logits, said.logits)
    torch.testing.assert_close(again.hidden, said.hidden)
