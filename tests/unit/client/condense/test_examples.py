"""Training on DANCE's core without DANCE, and DA-DFGAS on condensed graphs, against the same done by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedtag.client.condense.core.members import Core, select_core
from fedtag.client.condense.core.prior import evidence_prior
from fedtag.client.condense.core.topology import rebuild_topology
from fedtag.client.condense.examples import training_examples
from fedtag.client.condense.synthetic.leak import leak
from fedtag.client.methods.da_dfgas import method as searching
from fedtag.client.methods.da_dfgas.training import train_network, validation_halves
from fedtag.client.parts.neighbour_generator.method import mended_by
from fedtag.client.parts.neighbour_generator.training import fresh_generator
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.client.train.examples import Examples
from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.methods.da_dfgas.course import first_supernet
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.parameters import Parameters, fingerprint, parameters_of
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import discrete_network
from fedtag.common.models.supernet.supernet import Supernet
from fedtag.common.numerics.ragged import Ragged
from fedtag.common.randomness import derive_seed, numpy_generator
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from tests.exchanges import context_of

Open = Callable[..., SiteRun]
CLASSES, NODES, DIM = 3, 60, 8
CONFIDENT = {"dance-core.confidence": 0.3, "dance-core.pseudo-share": 0.4, "ratio": 0.4}
"""With which an untrained model's core has pseudo-labelled nodes."""
QUICK = {"condenser.outer-loops": 2, "condenser.inner-loops": 3, "condenser.hidden": 4}


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    """Each call is a process of its own at the same site."""

    def build(method: str = "fedavg", name: str = "site", nodes: int = NODES, **changes: Any) -> SiteRun:
        folder = tmp_path / "data" / f"{name} {nodes}"
        if not folder.exists():
            write_feature_folder(folder, nodes)
        flat = {
            "method": method,
            "rounds": 10,
            "clients": 3,
            "ratio": 0.2,
            "model.hidden": 6,
            "model.dropout": 0.0,
            "condenser.name": "dance-core",
            **changes,
        }
        work, cache = tmp_path / "work" / name, tmp_path / "cache"
        config = RunConfig.from_flat(without_foreign(flat))
        return SiteRun(Site(name, folder, work, cache, "cpu"), config)

    return build


def received(site: SiteRun, shift: int = 0) -> Parameters:
    """The initial model of the run's method, somewhat moved."""
    if site.config.method == "fedavg":
        model = parameters_of(initial_backbone(site.config, DIM, CLASSES))
    else:
        model = parameters_of(first_supernet(site.config, DIM, CLASSES))
    generator = torch.Generator().manual_seed(shift)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=generator) if value.ndim > 1 else value
        for name, value in model.items()
    }


def ask(site: SiteRun, number: int = 1, shift: int = 0, **values: Any) -> Reply:
    content = Content(prefixed("model", received(site, shift)), values)
    return site.respond(Instruction("run", number, number, "train", content))


def update(reply: Reply) -> str:
    return fingerprint(reply.content.section("update"))


def without_labels(folder: Path, *splits: str) -> None:
    """Move the labels of some splits of a folder to the next class, without any other change."""
    table = folder / "nodes.csv"
    header, *rows = table.read_text().splitlines()
    moved = []
    for row in rows:
        *head, label, split = row.split(",")
        moved.append(
            ",".join([*head, "abc"[("abc".index(label) + 1) % 3] if split in splits else label, split])
        )
    assert moved != rows
    table.write_text("\n".join([header, *moved]) + "\n")


def seen(site: SiteRun, number: int, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the received model says of the full graph: the input of its last layer, and its logits."""
    graph, adjacency, model = site.data.training.graph, site.data.training.adjacency, received(site, shift)
    if site.config.method == "fedavg":
        network = initial_backbone(site.config, DIM, CLASSES)
        network.load_state_dict(model)
        hidden = functional.relu(network.layers[0](graph.x, adjacency))
        return hidden.detach(), network(graph.x, adjacency).detach()
    caught: list[torch.Tensor] = []
    if number == 1:  # the search
        supernet = first_supernet(site.config, DIM, CLASSES)
        supernet.load_state_dict(model)
        supernet.classifier.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
        logits = supernet(graph.x, adjacency)
    else:
        found = discrete_network(discretised(model, site.config.own(DaDfgasConfig).path_gap), model, 0.0)
        found.classifier.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
        logits = found(graph.x, adjacency)
    return caught[0].detach(), logits.detach()


def core_by_hand(site: SiteRun, number: int, shift: int = 0, step: int | None = None) -> Core:
    """Node by node: pseudo-labels by DANCE's rule, then DANCE's choice."""
    graph, config = site.data.training.graph, site.config
    z, logits = seen(site, number, shift)
    labels = torch.full((graph.num_nodes,), -1)
    for node in range(graph.num_nodes):
        chances = np.exp(logits[node].double().numpy())
        chances /= chances.sum()
        if graph.train_mask[node]:
            labels[node] = graph.y[node]
        elif chances.max() >= config.own(CoreConfig).confidence:
            labels[node] = int(chances.argmax())
    return select_core(
        z,
        labels,
        graph.train_mask,
        num_classes=CLASSES,
        ratio=config.ratio,
        policy=config.own(CoreConfig).core_policy,
        generator=numpy_generator(config.seed, number, site.site.name, "core"),
        prototypes_per_class=config.own(CoreConfig).prototypes,
        rotation_seed=derive_seed(config.seed, site.site.name, "rotation"),
        step=number - 1 if step is None else step,
        pseudo_share=config.own(CoreConfig).pseudo_share,
    )


def dense(adjacency: Adjacency) -> torch.Tensor:
    matrix = torch.zeros(adjacency.num_nodes, adjacency.num_nodes)
    matrix[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.weight
    return matrix


def links_by_hand(site: SiteRun, core: Core) -> torch.Tensor:
    """Of features that were propagated twice by the dense matrix of the full graph, without any evidence."""
    graph, settings = site.data.training.graph, site.config.own(CoreConfig)
    if settings.topology == "induced":
        full = torch.zeros(graph.num_nodes, graph.num_nodes)
        full[graph.edge_index[1], graph.edge_index[0]] = graph.edge_weight
        block = full[core.nodes][:, core.nodes] + torch.eye(core.nodes.numel())
        return block / block.sum(1).sqrt()[:, None] / block.sum(0).sqrt()[None, :]
    full = dense(site.data.training.adjacency)
    rows = core.nodes.numel()
    nothing = Ragged.from_pairs(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long), rows)
    found = rebuild_topology(
        (full @ full @ graph.x)[core.nodes],
        evidence_prior(nothing, torch.ones(1, DIM)),
        alpha=settings.reconstruction,
        beta=settings.sparsity,
        candidates=settings.candidates,
        neighbours=settings.degree,
    )
    return dense(found.adjacency)


CASES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "pseudo-labels": {**CONFIDENT, "dance-core.pseudo-label-weight": 0.5},
    "unread pseudo-labels": CONFIDENT,
    "top, induced": {"dance-core.core-policy": "top", "dance-core.topology": "induced", **CONFIDENT},
    "inductive": {"train.inductive": True},
}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_update_of_fedavg_is_that_of_training_on_the_core_by_hand(
    open_site: Open, case: str, number: int
) -> None:
    site = open_site(**CASES[case])
    reply = ask(site, number, shift=number)
    core = core_by_hand(site, number, number)
    matrix, graph = links_by_hand(site, core), site.data.training.graph
    x, trained = graph.x[core.nodes].double(), graph.train_mask[core.nodes]
    assert bool((~trained).any()) == ("dance-core.confidence" in CASES[case])
    weight = torch.where(trained, 1.0, site.config.own(CoreConfig).pseudo_label_weight).double()
    start = received(site, number)
    first, bias, second, last = (
        torch.nn.Parameter(start[name].double())
        for name in (
            "layers.0.conv.lin.weight",
            "layers.0.conv.bias",
            "layers.1.conv.lin.weight",
            "layers.1.conv.bias",
        )
    )
    parameters = [first, bias, second, last]
    train = site.config.train
    stepper = torch.optim.Adam(parameters, lr=train.learning_rate, weight_decay=train.weight_decay)
    for _ in range(train.epochs):
        stepper.zero_grad()
        hidden = functional.relu(matrix.double() @ (x @ first.T) + bias)
        logits = matrix.double() @ (hidden @ second.T) + last
        losses = -logits.log_softmax(1).gather(1, core.labels[:, None]).squeeze(1)
        ((losses * weight).sum() / weight.sum()).backward()
        stepper.step()
    found = reply.content.section("update")
    for name, value in zip(
        ("layers.0.conv.lin.weight", "layers.0.conv.bias", "layers.1.conv.lin.weight", "layers.1.conv.bias"),
        parameters,
        strict=True,
    ):
        change = value.detach() - start[name].double()
        torch.testing.assert_close(found[name].double(), change, rtol=1e-3, atol=2e-4)
    told = reply.content.values["condensation"]
    assert (told["core"], told["nodes"]) == (core.nodes.numel(), NODES)
    assert told["links"] == int((matrix != 0).sum())


@pytest.mark.parametrize("number", [1, 8])
@pytest.mark.parametrize("case", CASES)
def test_da_dfgas_trains_on_the_core_of_the_network_that_it_received(
    open_site: Open, case: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Examples] = []

    def noted(model: Any, examples: Examples, *rest: Any) -> Any:
        given.append(examples)
        return train_network(model, examples, *rest)

    monkeypatch.setattr(searching, "train_network", noted)
    site = open_site("da_dfgas", **CASES[case])
    assert ask(site, number, shift=number).content.section("update")
    core = core_by_hand(site, number, number)
    (examples,) = given
    graph = site.data.training.graph
    assert torch.equal(examples.x, graph.x[core.nodes])
    learned = graph.train_mask[core.nodes]
    assert bool((~learned).any()) == ("dance-core.confidence" in CASES[case])
    if site.config.own(CoreConfig).pseudo_label_weight:
        learned = torch.ones_like(learned)
    assert torch.equal(examples.mask, learned)
    assert torch.equal(examples.y, core.labels)
    # Rounding may let a row of the self-expression stop one step earlier, at a relative change of 1e-4.
    torch.testing.assert_close(dense(examples.adjacency), links_by_hand(site, core), rtol=0.05, atol=2e-3)


@pytest.mark.parametrize("condenser", ["dance-core", "herding"])
def test_weights_learn_on_the_core_and_the_architecture_on_half_a_of_the_full_graph(
    open_site: Open, condenser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = open_site("da_dfgas", **{"condenser.name": condenser})
    passes: list[tuple[int, bool, bool]] = []
    plain = Supernet.forward

    def noted(model: Supernet, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        searches = {
            is_architecture(name): bool(value.requires_grad) and torch.is_grad_enabled()
            for name, value in model.named_parameters()
        }
        passes.append((x.shape[0], searches[False], searches[True]))
        return plain(model, x, *rest)

    monkeypatch.setattr(Supernet, "forward", noted)
    reply = ask(site)
    core = reply.content.values["condensation"]["core"]
    assert core == 12
    learning = [one for one in passes if one[1] or one[2]]
    assert learning == [(NODES, False, True), (core, True, False)] * site.config.train.epochs
    moved = reply.content.section("update")
    assert all(bool(value.any()) for name, value in moved.items() if is_architecture(name))
    # Labels of half B and of test nodes do nothing to it; those of half A alone are searched on.
    graph, halves = site.data.graph, validation_halves(site.data, context_of(site))
    for wrong, same in ((halves.judged | graph.test_mask, True), (halves.searched, False)):
        other = open_site("da_dfgas", **{"condenser.name": condenser})
        other.data.graph = replace(graph, y=torch.where(wrong, (graph.y + 1) % CLASSES, graph.y))
        assert (update(ask(other)) == update(reply)) is same


def test_gradients_come_from_the_nodes_of_the_core_alone(
    open_site: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = open_site(**CONFIDENT)
    rows: list[torch.Tensor] = []
    plain = Backbone.hidden_and_logits

    def noted(model: Backbone, x: torch.Tensor, *rest: Any) -> Any:
        if torch.is_grad_enabled():
            rows.append(x)
        return plain(model, x, *rest)

    monkeypatch.setattr(Backbone, "hidden_and_logits", noted)
    ask(site)
    core = core_by_hand(site, 1)
    rows = rows[: site.config.train.epochs]
    assert len(rows) == site.config.train.epochs
    assert all(torch.equal(x, site.data.graph.x[core.nodes]) for x in rows)


@pytest.mark.parametrize(("method", "number"), [("fedavg", 1), ("fedavg", 3), ("da_dfgas", 8)])
def test_labels_of_validation_and_test_nodes_change_nothing(
    open_site: Open, method: str, number: int
) -> None:
    """In the search validation nodes have their part; see above."""
    site = open_site(method, **CONFIDENT)
    expected = ask(site, number)
    without_labels(site.site.folder, "val", "test")
    # A run is about one state of a site's data, so that the other one is another site's.
    shutil.rmtree(site.site.state)
    again = open_site(method, **CONFIDENT)
    assert not torch.equal(again.data.graph.y, site.data.graph.y)
    assert update(ask(again, number)) == update(expected)


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_the_same_model_and_round_give_the_same_update_in_any_process(open_site: Open, method: str) -> None:
    site = open_site(method)
    ask(site, 1)
    known, fresh = ask(site, 2), ask(open_site(method), 2)
    assert update(known) == update(fresh)
    assert update(ask(open_site(method, seed=1), 2)) != update(fresh)


def kept_core(site: SiteRun, step: int) -> list[int]:
    found = StateStore(site.site.state, "run", "core").load_before(step + 1)
    assert found is not None
    return found.tensors["nodes"].tolist()


def test_windows_rotate_through_all_training_nodes(open_site: Open) -> None:
    """The number of the round alone says which window is due, also to a client that missed others."""
    cores = []
    for number in (1, 2, 3, 4):
        site = open_site()
        examples, told = examples_of(site, number)
        assert told["condensation"]["core"] == 12
        cores.append(set(_rows(site.data.graph, examples.x)))
    trained = set(site.data.graph.train_mask.nonzero().squeeze(1).tolist())
    assert cores[0] != cores[1]
    assert not cores[0] & cores[1]
    assert set().union(*cores) == trained


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_a_core_stays_until_its_refresh_whatever_processes_come_and_go(open_site: Open, method: str) -> None:
    # What the method itself remembers lies beside it.
    changes = {
        "dance-core.core-refresh": 2,
        **({"da_dfgas.keep-local": True} if method == "da_dfgas" else {}),
    }
    cores = []
    for number in (1, 2, 3, 4):
        site = open_site(method, **changes)
        ask(site, number, shift=number)
        cores.append(kept_core(site, number))
        own = StateStore(site.site.state, "run").load_before(99)
        assert (own is not None) == (method == "da_dfgas")
    assert cores[0] == cores[1] != cores[2] == cores[3]
    site = open_site(method, **changes)
    assert cores[0] == core_by_hand(site, 1, 1).nodes.tolist()
    if method == "fedavg":
        assert cores[2] == core_by_hand(site, 3, 3, step=1).nodes.tolist()
    # A server that resumes at round 2 finds the core of then.
    assert kept_core(site, 2) == cores[0]


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
@pytest.mark.parametrize("condenser", ["dance-core", "coarsening", "gcond"])
def test_a_client_without_training_nodes_sends_no_update(
    open_site: Open, method: str, condenser: str
) -> None:
    changes = {
        "condenser.name": condenser,
        "dance-core.confidence": 0.3,
        "dance-core.pseudo-label-weight": 1.0,
        **QUICK,
    }
    site = open_site(method, name="idle", **changes)
    table = site.site.folder / "nodes.csv"
    table.write_text(table.read_text().replace(",train", ","))
    for number in (1, 8):
        reply = ask(site, number, evaluate=True).content
        assert not reply.section("update")
        assert reply.section("scores")
        assert "training" not in reply.values
        assert reply.values["condensation"]["nodes"] == NODES
        assert ("architecture" in reply.values) == (method == "da_dfgas" and number == 8)


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_a_core_without_a_training_node_is_not_trained_on(open_site: Open, method: str) -> None:
    """The policy random draws whatever is there."""
    changes = {"dance-core.core-policy": "random", "rounds": 99, "train.epochs": 1, "ratio": 0.01}
    site = open_site(method, **changes)
    trained = site.data.graph.train_mask
    trains = {number: bool(trained[core_by_hand(site, number).nodes].any()) for number in range(2, 60)}
    for outcome in (True, False):
        number = next(number for number, found in trains.items() if found is outcome)
        reply = ask(site, number).content
        assert bool(reply.section("update")) is outcome
        assert reply.values["condensation"]["core"] == 3


@pytest.mark.parametrize("policy", ["top", "random"])
def test_inductive_cores_have_no_test_node(open_site: Open, policy: str) -> None:
    cores = {}
    for inductive in (False, True):
        changes = {
            "train.inductive": inductive,
            "dance-core.core-policy": policy,
            "dance-core.confidence": 0.0,
        }
        site = open_site(ratio=1.0, **changes)
        examples, _ = examples_of(site)
        cores[inductive] = set(_rows(site.data.graph, examples.x))
    tested = set(site.data.graph.test_mask.nonzero().squeeze(1).tolist())
    assert cores[False] == set(range(NODES))
    assert cores[True] == set(range(NODES)) - tested


def test_generated_neighbours_are_no_part_of_the_core(open_site: Open) -> None:
    mended = {"parts": "neighbour-generator", "neighbour-generator.most": 3}
    site = open_site(ratio=1.0, **mended, **{"dance-core.confidence": 0.0})
    fresh = parameters_of(fresh_generator(site.data, context_of(site)))
    data = mended_by({name: value + 0.5 for name, value in fresh.items()}, site.data, context_of(site))
    assert data.training.graph.num_nodes > NODES
    examples, told = training_examples(_model(site), data, context_of(site))
    assert torch.equal(examples.x, site.data.graph.x)
    assert told["condensation"]["core"] == told["condensation"]["nodes"] == NODES
    # They are propagated, as they are where the model is trained without a condenser.
    full = dense(data.training.adjacency)
    bare = open_site(ratio=1.0, **{"dance-core.confidence": 0.0})
    other, _ = examples_of(bare)
    assert not torch.equal(dense(examples.adjacency), dense(other.adjacency))
    assert full.shape[0] > NODES


def test_the_server_is_told_of_copies_as_of_those_of_other_condensers(open_site: Open) -> None:
    site = open_site(ratio=0.9, **{"dance-core.confidence": 0.0})
    x = site.data.graph.x.clone()
    x[10:20] = x[20:30]
    site.data.graph = site.data.graph.with_features(x)
    examples, told = examples_of(site)
    expected = leak(examples.x, x)
    assert 0 < expected.close < 1
    found = told["condensation"]
    assert (found["copied"], found["close"]) == (expected.copied, pytest.approx(expected.close))
    assert found.keys() == {"core", "nodes", "copied", "close", "links", "fell_back", "approximate"}


def test_confidences_are_calibrated_where_dance_calibrates_them(open_site: Open) -> None:
    sizes = []
    for calibration in ("none", "temperature"):
        changes = {"dance-core.calibration": calibration, "dance-core.confidence": 0.9}
        site = open_site(ratio=1.0, **changes)
        model = initial_backbone(site.config, DIM, CLASSES)
        torch.nn.utils.vector_to_parameters(
            20 * torch.nn.utils.parameters_to_vector(model.parameters()).detach(), model.parameters()
        )
        _, told = training_examples(model, site.data, context_of(site))
        sizes.append(told["condensation"]["core"])
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    "condenser", ["gcond", "gcond-x", "doscond", "sfgc", "coarsening", "k-center", "random"]
)
def test_da_dfgas_trains_on_what_any_condenser_makes(open_site: Open, condenser: str) -> None:
    """As fedavg does, and in later processes on the same graph from the disk."""
    changes = {"condenser.name": condenser, "condenser.expert-steps": 5, "condenser.experts": 1, **QUICK}
    site = open_site("da_dfgas", **changes)
    first = ask(site).content
    assert first.section("update")
    assert "condense" in first.values["seconds"]
    alike = ask(open_site("fedavg", name="site", **changes), 2).content
    assert first.values["condensation"] == alike.values["condensation"]
    assert "condense" not in alike.values["seconds"]
    plain = ask(open_site("da_dfgas", **{"condenser.name": "none"})).content
    assert "condensation" not in plain.values
    assert fingerprint(plain.section("update")) != fingerprint(first.section("update"))


def examples_of(site: SiteRun, number: int = 1) -> tuple[Examples, dict[str, Any]]:
    """Of the initial model."""
    return training_examples(_model(site), site.data, context_of(site, number))


def _model(site: SiteRun) -> Backbone:
    return initial_backbone(site.config, DIM, CLASSES)


def _rows(graph: Graph, x: torch.Tensor) -> list[int]:
    """The nodes whose features these are."""
    return [int((graph.x == row).all(1).nonzero()) for row in x]
