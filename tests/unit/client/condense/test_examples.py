"""Training on DANCE's core without DANCE, and DA-DFGAS on condensed graphs, against the same done by hand."""

from __future__ import annotations

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
from fedtag.client.context.session import Session
from fedtag.client.methods.da_dfgas import method as searching
from fedtag.client.methods.da_dfgas.training import train_network, validation_halves
from fedtag.client.parts.neighbour_generator.training import fresh_generator
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.client.train.examples import Examples
from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.methods.da_dfgas.course import first_supernet
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.methods.dance.settings import DanceConfig
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

Open = Callable[..., Session]
CLASSES, NODES, DIM = 3, 60, 8
CONFIDENT = {"dance.confidence": 0.3, "dance.pseudo-share": 0.4, "ratio": 0.4}
"""With which an untrained model's core has pseudo-labelled nodes."""
QUICK = {"condenser.outer-loops": 2, "condenser.inner-loops": 3, "condenser.hidden": 4}


@pytest.fixture
def open_session(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Open:
    """Each call is a process of its own at the same site."""

    def build(method: str = "fedavg", name: str = "site", nodes: int = NODES, **changes: Any) -> Session:
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
        return Session(Site(name, folder, work, cache, "cpu"), RunConfig.from_flat(flat))

    return build


def received(session: Session, shift: int = 0) -> Parameters:
    """The initial model of the run's method, somewhat moved."""
    if session.config.method == "fedavg":
        model = parameters_of(initial_backbone(session.config.model, DIM, CLASSES, 0))
    else:
        model = parameters_of(first_supernet(session.config, DIM, CLASSES))
    generator = torch.Generator().manual_seed(shift)
    return {
        name: value + 0.1 * torch.randn(value.shape, generator=generator) if value.ndim > 1 else value
        for name, value in model.items()
    }


def ask(session: Session, number: int = 1, shift: int = 0, **values: Any) -> Reply:
    content = Content(prefixed("model", received(session, shift)), values)
    return session.respond(Instruction("run", number, number, "train", content))


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


def seen(session: Session, number: int, shift: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the received model says of the full graph: the input of its last layer, and its logits."""
    graph, adjacency, model = session.training_graph, session.training_adjacency, received(session, shift)
    if session.config.method == "fedavg":
        network = initial_backbone(session.config.model, DIM, CLASSES, 0)
        network.load_state_dict(model)
        hidden = functional.relu(network.layers[0](graph.x, adjacency))
        return hidden.detach(), network(graph.x, adjacency).detach()
    caught: list[torch.Tensor] = []
    if number == 1:  # the search
        supernet = first_supernet(session.config, DIM, CLASSES)
        supernet.load_state_dict(model)
        supernet.classifier.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
        logits = supernet(graph.x, adjacency)
    else:
        found = discrete_network(discretised(model, session.config.own(DaDfgasConfig).path_gap), model, 0.0)
        found.classifier.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
        logits = found(graph.x, adjacency)
    return caught[0].detach(), logits.detach()


def core_by_hand(session: Session, number: int, shift: int = 0, step: int | None = None) -> Core:
    """Node by node: pseudo-labels by DANCE's rule, then DANCE's choice."""
    graph, config = session.training_graph, session.config
    z, logits = seen(session, number, shift)
    labels = torch.full((graph.num_nodes,), -1)
    for node in range(graph.num_nodes):
        chances = np.exp(logits[node].double().numpy())
        chances /= chances.sum()
        if graph.train_mask[node]:
            labels[node] = graph.y[node]
        elif chances.max() >= config.own(DanceConfig).confidence:
            labels[node] = int(chances.argmax())
    return select_core(
        z,
        labels,
        graph.train_mask,
        num_classes=CLASSES,
        ratio=config.ratio,
        policy=config.own(DanceConfig).core_policy,
        generator=numpy_generator(config.seed, number, session.site.name, "core"),
        prototypes_per_class=config.own(DanceConfig).prototypes,
        rotation_seed=derive_seed(config.seed, session.site.name, "rotation"),
        step=number - 1 if step is None else step,
        pseudo_share=config.own(DanceConfig).pseudo_share,
    )


def dense(adjacency: Adjacency) -> torch.Tensor:
    matrix = torch.zeros(adjacency.num_nodes, adjacency.num_nodes)
    matrix[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.weight
    return matrix


def links_by_hand(session: Session, core: Core) -> torch.Tensor:
    """Of features that were propagated twice by the dense matrix of the full graph, without any evidence."""
    graph, settings = session.training_graph, session.config.own(DanceConfig)
    if settings.topology == "induced":
        full = torch.zeros(graph.num_nodes, graph.num_nodes)
        full[graph.edge_index[1], graph.edge_index[0]] = graph.edge_weight
        block = full[core.nodes][:, core.nodes] + torch.eye(core.nodes.numel())
        return block / block.sum(1).sqrt()[:, None] / block.sum(0).sqrt()[None, :]
    full = dense(session.training_adjacency)
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
    "pseudo-labels": {**CONFIDENT, "dance.pseudo-label-weight": 0.5},
    "unread pseudo-labels": CONFIDENT,
    "top, induced": {"dance.core-policy": "top", "dance.topology": "induced", **CONFIDENT},
    "inductive": {"train.inductive": True},
}


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("case", CASES)
def test_the_update_of_fedavg_is_that_of_training_on_the_core_by_hand(
    open_session: Open, case: str, number: int
) -> None:
    session = open_session(**CASES[case])
    reply = ask(session, number, shift=number)
    core = core_by_hand(session, number, number)
    matrix, graph = links_by_hand(session, core), session.training_graph
    x, trained = graph.x[core.nodes].double(), graph.train_mask[core.nodes]
    assert bool((~trained).any()) == ("dance.confidence" in CASES[case])
    weight = torch.where(trained, 1.0, session.config.own(DanceConfig).pseudo_label_weight).double()
    start = received(session, number)
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
    train = session.config.train
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
    open_session: Open, case: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Examples] = []

    def noted(session: Session, model: Any, examples: Examples, *rest: Any) -> Any:
        given.append(examples)
        return train_network(session, model, examples, *rest)

    monkeypatch.setattr(searching, "train_network", noted)
    session = open_session("da_dfgas", **CASES[case])
    assert ask(session, number, shift=number).content.section("update")
    core = core_by_hand(session, number, number)
    (examples,) = given
    graph = session.training_graph
    assert torch.equal(examples.x, graph.x[core.nodes])
    learned = graph.train_mask[core.nodes]
    assert bool((~learned).any()) == ("dance.confidence" in CASES[case])
    if session.config.own(DanceConfig).pseudo_label_weight:
        learned = torch.ones_like(learned)
    assert torch.equal(examples.mask, learned)
    assert torch.equal(examples.y, core.labels)
    torch.testing.assert_close(dense(examples.adjacency), links_by_hand(session, core))


@pytest.mark.parametrize("condenser", ["dance-core", "herding"])
def test_weights_learn_on_the_core_and_the_architecture_on_half_a_of_the_full_graph(
    open_session: Open, condenser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session("da_dfgas", **{"condenser.name": condenser})
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
    reply = ask(session)
    core = reply.content.values["condensation"]["core"]
    assert core == 12
    learning = [one for one in passes if one[1] or one[2]]
    assert learning == [(NODES, False, True), (core, True, False)] * session.config.train.epochs
    moved = reply.content.section("update")
    assert all(bool(value.any()) for name, value in moved.items() if is_architecture(name))
    # Labels of half B and of test nodes do nothing to it; those of half A alone are searched on.
    graph, halves = session.graph, validation_halves(session)
    for wrong, same in ((halves.judged | graph.test_mask, True), (halves.searched, False)):
        other = open_session("da_dfgas", **{"condenser.name": condenser})
        other.graph = replace(graph, y=torch.where(wrong, (graph.y + 1) % CLASSES, graph.y))
        assert (update(ask(other)) == update(reply)) is same


def test_gradients_come_from_the_nodes_of_the_core_alone(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session(**CONFIDENT)
    rows: list[torch.Tensor] = []
    plain = Backbone.hidden_and_logits

    def noted(model: Backbone, x: torch.Tensor, *rest: Any) -> Any:
        if torch.is_grad_enabled():
            rows.append(x)
        return plain(model, x, *rest)

    monkeypatch.setattr(Backbone, "hidden_and_logits", noted)
    ask(session)
    core = core_by_hand(session, 1)
    rows = rows[: session.config.train.epochs]
    assert len(rows) == session.config.train.epochs
    assert all(torch.equal(x, session.graph.x[core.nodes]) for x in rows)


@pytest.mark.parametrize(("method", "number"), [("fedavg", 1), ("fedavg", 3), ("da_dfgas", 8)])
def test_labels_of_validation_and_test_nodes_change_nothing(
    open_session: Open, method: str, number: int
) -> None:
    """In the search validation nodes have their part; see above."""
    session = open_session(method, **CONFIDENT)
    expected = ask(session, number)
    without_labels(session.site.folder, "val", "test")
    again = open_session(method, **CONFIDENT)
    assert not torch.equal(again.graph.y, session.graph.y)
    assert update(ask(again, number)) == update(expected)


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_the_same_model_and_round_give_the_same_update_in_any_process(
    open_session: Open, method: str
) -> None:
    session = open_session(method)
    ask(session, 1)
    known, fresh = ask(session, 2), ask(open_session(method), 2)
    assert update(known) == update(fresh)
    assert update(ask(open_session(method, seed=1), 2)) != update(fresh)


def kept_core(session: Session, step: int) -> list[int]:
    found = StateStore(session.site.state, "run", "core").load_before(step + 1)
    assert found is not None
    return found.tensors["nodes"].tolist()


def test_windows_rotate_through_all_training_nodes(open_session: Open) -> None:
    """The number of the round alone says which window is due, also to a client that missed others."""
    cores = []
    for number in (1, 2, 3, 4):
        session = open_session()
        examples, told = training_examples(session, _model(session), number)
        assert told["condensation"]["core"] == 12
        cores.append(set(_rows(session.graph, examples.x)))
    trained = set(session.graph.train_mask.nonzero().squeeze(1).tolist())
    assert cores[0] != cores[1]
    assert not cores[0] & cores[1]
    assert set().union(*cores) == trained


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_a_core_stays_until_its_refresh_whatever_processes_come_and_go(
    open_session: Open, method: str
) -> None:
    # What the method itself remembers lies beside it.
    changes = {"dance.core-refresh": 2, **({"da_dfgas.keep-local": True} if method == "da_dfgas" else {})}
    cores = []
    for number in (1, 2, 3, 4):
        session = open_session(method, **changes)
        ask(session, number, shift=number)
        cores.append(kept_core(session, number))
        own = StateStore(session.site.state, "run").load_before(99)
        assert (own is not None) == (method == "da_dfgas")
    assert cores[0] == cores[1] != cores[2] == cores[3]
    session = open_session(method, **changes)
    assert cores[0] == core_by_hand(session, 1, 1).nodes.tolist()
    if method == "fedavg":
        assert cores[2] == core_by_hand(session, 3, 3, step=1).nodes.tolist()
    # A server that resumes at round 2 finds the core of then.
    assert kept_core(session, 2) == cores[0]


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
@pytest.mark.parametrize("condenser", ["dance-core", "coarsening", "gcond"])
def test_a_client_without_training_nodes_sends_no_update(
    open_session: Open, method: str, condenser: str
) -> None:
    changes = {
        "condenser.name": condenser,
        "dance.confidence": 0.3,
        "dance.pseudo-label-weight": 1.0,
        **QUICK,
    }
    session = open_session(method, name="idle", **changes)
    table = session.site.folder / "nodes.csv"
    table.write_text(table.read_text().replace(",train", ","))
    for number in (1, 8):
        reply = ask(session, number, evaluate=True).content
        assert not reply.section("update")
        assert reply.section("scores")
        assert "training" not in reply.values
        assert reply.values["condensation"]["nodes"] == NODES
        assert ("architecture" in reply.values) == (method == "da_dfgas" and number == 8)


@pytest.mark.parametrize("method", ["fedavg", "da_dfgas"])
def test_a_core_without_a_training_node_is_not_trained_on(open_session: Open, method: str) -> None:
    """The policy random draws whatever is there."""
    changes = {"dance.core-policy": "random", "rounds": 99, "train.epochs": 1, "ratio": 0.01}
    session = open_session(method, **changes)
    trained = session.graph.train_mask
    trains = {number: bool(trained[core_by_hand(session, number).nodes].any()) for number in range(2, 60)}
    for outcome in (True, False):
        number = next(number for number, found in trains.items() if found is outcome)
        reply = ask(session, number).content
        assert bool(reply.section("update")) is outcome
        assert reply.values["condensation"]["core"] == 3


@pytest.mark.parametrize("policy", ["top", "random"])
def test_inductive_cores_have_no_test_node(open_session: Open, policy: str) -> None:
    cores = {}
    for inductive in (False, True):
        changes = {"train.inductive": inductive, "dance.core-policy": policy, "dance.confidence": 0.0}
        session = open_session(ratio=1.0, **changes)
        examples, _ = training_examples(session, _model(session), 1)
        cores[inductive] = set(_rows(session.graph, examples.x))
    tested = set(session.graph.test_mask.nonzero().squeeze(1).tolist())
    assert cores[False] == set(range(NODES))
    assert cores[True] == set(range(NODES)) - tested


def test_generated_neighbours_are_no_part_of_the_core(open_session: Open) -> None:
    mended = {"parts": "neighbour-generator", "neighbour-generator.most": 3}
    session = open_session(ratio=1.0, **mended, **{"dance.confidence": 0.0})
    session.generator = {name: value + 0.5 for name, value in parameters_of(fresh_generator(session)).items()}
    assert session.training_graph.num_nodes > NODES
    examples, told = training_examples(session, _model(session), 1)
    assert torch.equal(examples.x, session.local_graph.x)
    assert told["condensation"]["core"] == told["condensation"]["nodes"] == NODES
    # They are propagated, as they are where the model is trained without a condenser.
    full = dense(session.training_adjacency)
    bare = open_session(ratio=1.0, **{"dance.confidence": 0.0})
    other, _ = training_examples(bare, _model(bare), 1)
    assert not torch.equal(dense(examples.adjacency), dense(other.adjacency))
    assert full.shape[0] > NODES


def test_the_server_is_told_of_copies_as_of_those_of_other_condensers(open_session: Open) -> None:
    session = open_session(ratio=0.9, **{"dance.confidence": 0.0})
    x = session.graph.x.clone()
    x[10:20] = x[20:30]
    session.graph = session.graph.with_features(x)
    examples, told = training_examples(session, _model(session), 1)
    expected = leak(examples.x, x)
    assert 0 < expected.close < 1
    found = told["condensation"]
    assert (found["copied"], found["close"]) == (expected.copied, pytest.approx(expected.close))
    assert found.keys() == {"core", "nodes", "copied", "close", "links", "fell_back"}


def test_confidences_are_calibrated_where_dance_calibrates_them(open_session: Open) -> None:
    sizes = []
    for calibration in ("none", "temperature"):
        changes = {"dance.calibration": calibration, "dance.confidence": 0.9}
        session = open_session(ratio=1.0, **changes)
        model = initial_backbone(session.config.model, DIM, CLASSES, 0)
        torch.nn.utils.vector_to_parameters(
            20 * torch.nn.utils.parameters_to_vector(model.parameters()).detach(), model.parameters()
        )
        _, told = training_examples(session, model, 1)
        sizes.append(told["condensation"]["core"])
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    "condenser", ["gcond", "gcond-x", "doscond", "sfgc", "coarsening", "k-center", "random"]
)
def test_da_dfgas_trains_on_what_any_condenser_makes(open_session: Open, condenser: str) -> None:
    """As fedavg does, and in later processes on the same graph from the disk."""
    changes = {"condenser.name": condenser, "condenser.expert-steps": 5, "condenser.experts": 1, **QUICK}
    session = open_session("da_dfgas", **changes)
    first = ask(session).content
    assert first.section("update")
    assert "condense" in first.values["seconds"]
    alike = ask(open_session("fedavg", name="site", **changes), 2).content
    assert first.values["condensation"] == alike.values["condensation"]
    assert "condense" not in alike.values["seconds"]
    plain = ask(open_session("da_dfgas", **{"condenser.name": "none"})).content
    assert "condensation" not in plain.values
    assert fingerprint(plain.section("update")) != fingerprint(first.section("update"))


def _model(session: Session) -> Backbone:
    return initial_backbone(session.config.model, DIM, CLASSES, 0)


def _rows(graph: Graph, x: torch.Tensor) -> list[int]:
    """The nodes whose features these are."""
    return [int((graph.x == row).all(1).nonzero()) for row in x]
