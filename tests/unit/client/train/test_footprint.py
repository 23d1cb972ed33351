from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtag.client.train.footprint import Footprint, Held, held_bytes
from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import fingerprint, parameters_of
from tests.unit.client.train.graphs import MODELS, WIDTH, model


def test_what_is_held_is_counted_until_it_is_let_go() -> None:
    """By hand, with views and steps in place, which hold nothing more."""
    with Held() as held:
        one = torch.zeros(1000)
        assert (held.now, held.most) == (4000, 4000)
        two = one + 1
        view = two[:10].view(2, 5)
        two.add_(1)
        assert (held.now, held.most) == (8000, 8000)
        del one, two
        assert held.now == 4000
        del view
        assert (held.now, held.most) == (0, 8000)
        parts = torch.zeros(500).split(100)
        assert held.now == 2000
        del parts
        assert (held.now, held.most) == (0, 8000)


def test_what_gradients_need_is_held_as_long() -> None:
    with Held() as held:
        weight = torch.ones(1000, requires_grad=True)
        value = (weight * 2).exp()
        after = held.now
        total = value.sum()
        del value
        # The result of exp is kept for its gradient, though nothing else names it.
        assert held.now >= after
        total.backward()
        del total
        assert held.now == 2 * 4000


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("nodes", "links"), [(2000, 0), (2000, 9000), (500, 60_000)])
def test_tiny_graphs_foretell_the_most_that_a_large_one_holds(kind: str, nodes: int, links: int) -> None:
    """Never less than is counted on the large one itself, and not much more."""
    one = model(kind, 3)
    foretold = Footprint.of(one, WIDTH).bytes(nodes, links)
    generator = torch.Generator().manual_seed(0)

    def step(model: NodeClassifier, x: Tensor, adjacency: Adjacency) -> None:
        y = torch.zeros(nodes, dtype=torch.long)
        functional.cross_entropy(model(x, adjacency, generator), y).backward()

    counted = held_bytes(step, one, WIDTH, nodes, links)
    assert 0.97 * counted <= foretold <= 1.7 * counted


class Two(NodeClassifier):
    """Two dense layers without dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(50, 6), nn.Linear(6, 3)

    def hidden_and_logits(
        self, x: Tensor, adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        hidden = self.first(x).relu()
        return hidden, self.second(hidden)


def test_a_step_of_dense_layers_holds_what_a_person_counts() -> None:
    """Fifty features in four bytes each, a few dozen numbers of hidden units, logits and labels, and the graph."""
    found = Footprint.of(Two(), 50)
    assert 4 * (50 + 6 + 3) + 20 <= found.node <= 4 * (50 + 4 * 6 + 6 * 3 + 20) + 20
    # Two places and a weight.
    assert found.link == 20


def test_counting_changes_nothing_of_the_model() -> None:
    one = model("gcn")
    before = fingerprint(parameters_of(one))
    Footprint.of(one, WIDTH)
    assert fingerprint(parameters_of(one)) == before
    assert all(value.grad is None for value in one.parameters())
