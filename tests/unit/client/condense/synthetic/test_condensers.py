"""What every condenser keeps, whatever the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fedtag.client.condense.condenser import condense
from fedtag.client.condense.synthetic.leak import leak
from fedtag.common.condensers.spec import CONDENSERS
from fedtag.common.errors import ConfigError
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.labels import class_counts

Graphs = Callable[..., Graph]
ONCE = [name for name in CONDENSERS.names if not CONDENSERS.get(name).every_round]
LEARNED = ["gcond", "gcond-x", "doscond", "sfgc"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def equal(one: Condensed, other: Condensed) -> bool:
    return all(
        torch.equal(value, other.tensors[name]) and value.dtype == other.tensors[name].dtype
        for name, value in one.tensors.items()
    )


@pytest.fixture(params=ONCE)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_result_has_the_form_that_training_needs(
    name: str, graph_of: Graphs, quick: CondenserConfig
) -> None:
    graph = graph_of()
    found = condense(name, graph, 9, quick, generator())
    assert found.x.shape == (9, 6)
    labelled = torch.bincount(graph.y[graph.train_mask], minlength=3)
    assert torch.equal(torch.bincount(found.y, minlength=3), class_counts(labelled, 9))
    assert bool(torch.isfinite(found.x).all())
    assert bool((found.edge_weight > 0).all())
    source, target = found.edge_index
    assert bool((source != target).all())
    pairs = {(int(a), int(b)): float(w) for a, b, w in zip(source, target, found.edge_weight, strict=True)}
    assert all(pairs[b, a] == pytest.approx(w) for (a, b), w in pairs.items())
    assert found.graph(3).adjacency().num_nodes == 9


def test_the_same_seed_gives_the_same_bits(name: str, graph_of: Graphs, quick: CondenserConfig) -> None:
    one, other = (condense(name, graph_of(), 9, quick, generator(1)) for _ in range(2))
    assert equal(one, other)
    # The choice of herding and k-center leaves nothing to chance.
    if name not in ("herding", "k-center"):
        assert not equal(one, condense(name, graph_of(), 9, quick, generator(2)))


def test_nothing_is_drawn_from_the_global_generator(
    name: str, graph_of: Graphs, quick: CondenserConfig
) -> None:
    state = torch.random.get_rng_state()
    condense(name, graph_of(), 9, quick, generator())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_labels_of_other_than_training_nodes_are_not_learned(
    name: str, graph_of: Graphs, quick: CondenserConfig
) -> None:
    graph = graph_of()
    hidden = graph.test_mask if name in LEARNED else ~graph.train_mask
    changed = replace(graph, y=torch.where(hidden, (graph.y + 1) % 3, graph.y))
    assert equal(condense(name, graph, 9, quick, generator()), condense(name, changed, 9, quick, generator()))
    # Without patience or a choice, validation labels have no influence either.
    if name in LEARNED:
        last = quick.model_copy(update={"validate_every": 1000})
        none = replace(graph, val_mask=graph.val_mask & False)
        moved = replace(none, y=torch.where(graph.train_mask, graph.y, (graph.y + 1) % 3))
        assert equal(condense(name, none, 9, last, generator()), condense(name, moved, 9, last, generator()))


def test_copies_are_named_and_nothing_else_is_copied(
    name: str, graph_of: Graphs, quick: CondenserConfig
) -> None:
    graph = graph_of()
    found = condense(name, graph, 6, quick, generator())
    assert found.copies == CONDENSERS.get(name).copies
    assert leak(found.x, graph.x).copied == (1.0 if found.copies else 0.0)


@pytest.mark.parametrize(
    "kind", ["no training node", "one training node", "one class", "two nodes", "isolated"]
)
def test_small_clients_need_no_special_case(
    name: str, kind: str, graph_of: Graphs, quick: CondenserConfig
) -> None:
    graph = graph_of(12 if kind != "two nodes" else 2)
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    if kind == "no training node":
        graph = replace(graph, train_mask=none)
    elif kind == "one training node":
        graph = replace(graph, train_mask=torch.arange(12) == 4, val_mask=none)
    elif kind == "one class":
        graph = replace(graph, y=graph.y * 0 + 2)
    elif kind == "isolated":
        graph = replace(graph, edge_index=graph.edge_index[:, :0], edge_weight=graph.edge_weight[:0])
    found = condense(name, graph, 2, quick, generator())
    present = int(graph.y[graph.train_mask].unique().numel())
    assert found.num_nodes <= max(2, present)
    assert (found.num_nodes >= present) if present else (found.num_nodes == 0)
    assert bool(torch.isfinite(found.x).all())
    assert bool(torch.isfinite(found.adjacency.weight).all())
    if name in LEARNED:
        assert leak(found.x, graph.x).copied == 0


@pytest.mark.parametrize("condenser", LEARNED)
def test_learning_teaches_more_than_the_features_it_begins_with(
    condenser: str, graph_of: Graphs, quick: CondenserConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores: list[tuple[float, float]] = []
    from fedtag.client.condense.synthetic.validation import Validation

    score = Validation._score

    def noted(self: Validation, candidate: Condensed) -> tuple[float, float]:
        scores.append(score(self, candidate))
        return scores[-1]

    monkeypatch.setattr(Validation, "_score", noted)
    more = quick.model_copy(update={"outer_loops": 12})
    condense(condenser, graph_of(150), 9, more, generator())
    assert max(scores)[0] >= 0.9
    assert max(scores) > scores[0]


def test_progress_is_told(graph_of: Graphs, quick: CondenserConfig) -> None:
    told: list[tuple[int, int]] = []
    patient = quick.model_copy(update={"patience": 100})
    condense("gcond", graph_of(), 6, patient, generator(), report=lambda *at: told.append(at))
    assert told == [(number, 6) for number in range(1, 7)]


def test_patience_ends_a_condensation(graph_of: Graphs, quick: CondenserConfig) -> None:
    told: list[int] = []
    hasty = quick.model_copy(
        update={"patience": 1, "validate_every": 1, "feature_rate": 1e-9, "outer_loops": 50}
    )
    condense("gcond-x", graph_of(), 6, hasty, generator(), report=lambda done, _: told.append(done))
    assert told[-1] < 50


def test_an_unknown_condenser_is_refused(graph_of: Graphs, quick: CondenserConfig) -> None:
    with pytest.raises(
        ConfigError, match=r"'gcondd': no condenser is called so \(did you mean gcond\?\); use"
    ):
        condense("gcondd", graph_of(), 6, quick, generator())
