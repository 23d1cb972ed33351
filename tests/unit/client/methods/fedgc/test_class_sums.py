"""Class-wise sums against torch.autograd on pooled class subgraphs, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.methods.fedgc.class_sums import feature_sums, gradient_sums, told_counts
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.synthetic.gradients import MatchingModel, Weights, initial_weights

CLASSES, DIM, HIDDEN = 4, 5, 6


class Client:
    """A small graph; class 3 has no labelled node, and others only on some clients."""

    def __init__(self, nodes: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        pairs = torch.randint(nodes, (2, 2 * nodes), generator=generator)
        pairs = pairs[:, pairs[0] != pairs[1]]
        self.edges = torch.unique(torch.cat([pairs, pairs.flip(0)], 1), dim=1)
        self.x = torch.randn(nodes, DIM, generator=generator, dtype=torch.float64)
        self.y = torch.randint(3, (nodes,), generator=generator)
        self.labelled = torch.rand(nodes, generator=generator) < 0.6
        self.labelled[:2] = True

    @property
    def adjacency(self) -> Adjacency:
        found = normalised_adjacency(self.edges, len(self.y))
        return Adjacency(found.edge_index, found.weight.double(), found.num_nodes)

    def counts(self) -> Tensor:
        return torch.bincount(self.y[self.labelled], minlength=CLASSES)

    def sums(self, weights: Weights, counts: Tensor) -> tuple[Tensor, ...]:
        batch = whole_batch(self.x, self.adjacency, self.labelled, self.y)
        return gradient_sums(weights, batch, counts)


def pooled(clients: list[Client]) -> Client:
    """All clients as one graph, without any edge between them."""
    whole = Client(2, 0)
    starts = [sum(len(client.y) for client in clients[:place]) for place in range(len(clients))]
    whole.edges = torch.cat([one.edges + start for one, start in zip(clients, starts, strict=True)], 1)
    for name in ("x", "y", "labelled"):
        setattr(whole, name, torch.cat([getattr(client, name) for client in clients]))
    return whole


def within_two_hops(adjacency: Tensor, nodes: Tensor) -> Tensor:
    """The class subgraph: some nodes with all that two propagations read."""
    return ((adjacency @ adjacency)[nodes] != 0).any(0)


def autograd(whole: Client, weights: Weights, label: int) -> list[Tensor]:
    """∇L_c on the class subgraph, by a plain implementation with dense matrices."""
    propagation = torch.zeros(len(whole.y), len(whole.y), dtype=torch.float64)
    adjacency = whole.adjacency
    propagation[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.weight
    members = whole.labelled & (whole.y == label)
    seen = within_two_hops(propagation, members)
    inner, x, targets = propagation[seen][:, seen], whole.x[seen], members[seen]
    moving = [weight.clone().requires_grad_() for weight in weights]
    if len(moving) == 2:
        logits = inner @ inner @ x @ moving[0] + moving[1]
    else:
        hidden = functional.relu(inner @ x @ moving[0] + moving[1])
        logits = inner @ hidden @ moving[2] + moving[3]
    loss = functional.cross_entropy(logits[targets], whole.y[seen][targets])
    return list(torch.autograd.grad(loss, moving))


@pytest.mark.parametrize("model", ["gcn", "sgc"])
@pytest.mark.parametrize("seed", range(3))
def test_the_aggregate_is_the_gradient_on_pooled_class_subgraphs(model: MatchingModel, seed: int) -> None:
    clients = [Client(nodes, 10 * seed + place) for place, nodes in enumerate((9, 14, 6))]
    generator = torch.Generator().manual_seed(seed)
    fresh = initial_weights(model, DIM, HIDDEN, CLASSES, generator)
    weights = tuple(
        weight.double() + 0.1 * torch.randn(weight.shape, generator=generator) for weight in fresh
    )
    total = [sum(parts) for parts in zip(*(c.sums(weights, c.counts()) for c in clients), strict=True)]
    counts = torch.stack([client.counts() for client in clients]).sum(0)
    whole = pooled(clients)
    for label in range(3):
        for found, wanted in zip(total, autograd(whole, weights, label), strict=True):
            assert float((found[label] / counts[label] - wanted).abs().max()) < 1e-9
    assert all(bool((found[3] == 0).all()) for found in total)


def test_a_class_that_is_not_told_of_leaves_nothing() -> None:
    client, weights = Client(12, 1), initial_weights("gcn", DIM, HIDDEN, CLASSES, torch.Generator())
    weights = tuple(weight.double() for weight in weights)
    counts = client.counts()
    silent = counts.clone()
    silent[1] = 0
    for found, whole in zip(client.sums(weights, silent), client.sums(weights, counts), strict=True):
        assert bool((found[1] == 0).all())
        assert torch.equal(found[[0, 2]], whole[[0, 2]])
        assert float(whole[1].abs().max()) > 0


def test_where_each_sum_is_seen_a_client_needs_enough_nodes_of_its_own() -> None:
    labelled = torch.tensor([0, 1, 2, 7])
    assert told_counts(labelled, 2, None).tolist() == [0, 0, 2, 7]
    assert told_counts(labelled, 1, None).tolist() == [0, 1, 2, 7]


def test_where_only_totals_are_seen_these_must_be_enough() -> None:
    labelled = torch.tensor([0, 1, 1, 7])
    enough = torch.tensor([True, True, False, True])
    assert told_counts(labelled, 2, enough).tolist() == [0, 1, 0, 7]


def test_sums_of_features_are_over_all_nodes_that_training_may_see() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [100.0, 100.0], [5.0, -6.0]])
    seen = torch.tensor([True, True, False, True])
    count, first, second = feature_sums(x, seen, 3)
    assert count.tolist() == [3]
    assert first.tolist() == [9.0, 0.0]
    assert second.tolist() == [35.0, 56.0]
    # Of fewer nodes nothing is told.
    assert all(not bool(value.any()) for value in feature_sums(x, seen, 4))
