from __future__ import annotations

from collections.abc import Callable

import torch

from fedtag.client.condense.synthetic.sampling import ClassSampler, whole_batch
from fedtag.common.graph import Graph
from fedtag.common.synthetic.gradients import class_gradients, initial_weights

Graphs = Callable[..., Graph]


def test_without_a_budget_the_batch_is_the_whole_graph(graph_of: Graphs) -> None:
    graph = graph_of()
    sampler = ClassSampler(graph, 100, 100, torch.Generator())
    whole = whole_batch(graph.x, graph.adjacency(), graph.train_mask, graph.y)
    weights = initial_weights("gcn", 6, 5, 3, torch.Generator().manual_seed(0))
    for one, other in zip(
        class_gradients(weights, sampler.batch()), class_gradients(weights, whole), strict=True
    ):
        torch.testing.assert_close(one, other)
    assert sampler.batch() is sampler.batch()


def test_budgets_bound_nodes_and_neighbours(graph_of: Graphs) -> None:
    graph = graph_of(240)
    sampler = ClassSampler(graph, 10, 2, torch.Generator().manual_seed(0))
    seen = set()
    for _ in range(20):
        batch = sampler.batch()
        assert torch.bincount(batch.y, minlength=3).tolist() == [10, 10, 10]
        # A node and at most two neighbours.
        per_row = torch.bincount(batch.second.indices()[0], minlength=30)
        assert int(per_row.max()) <= 3
        assert batch.propagated.shape[0] == batch.second.shape[1]
        seen.add(float(batch.propagated.sum()))
    assert len(seen) == 20


def test_sampled_sums_over_neighbours_keep_their_expectation(graph_of: Graphs) -> None:
    graph = graph_of(45)
    sampler = ClassSampler(graph, 100, 3, torch.Generator().manual_seed(0))
    wanted = graph.adjacency().propagate(graph.adjacency().propagate(graph.x))[graph.train_mask]
    draws = torch.stack([(batch := sampler.batch()).second @ batch.propagated for _ in range(600)])
    error = (draws.mean(0) - wanted).abs()
    assert bool((error <= 5 * draws.std(0) / 600**0.5 + 1e-5).all())
