"""Graphs side by side are each graph alone; sums over links have one order and the same gradients."""

from __future__ import annotations

import torch

from fedtag.client.train.stacked.graphs import Ends, OrderedSums, one_graph, side_by_side
from tests.unit.client.train.stacked.drawn import SIZES, graph_of

GRAPHS = [graph_of(*size, seed) for seed, size in enumerate(SIZES.values())]
ROWS = max(graph.num_nodes for graph in GRAPHS) + 2


def test_the_product_is_that_of_each_graph() -> None:
    graph, x = (
        one_graph([one.adjacency() for one in GRAPHS], ROWS),
        side_by_side([one.x for one in GRAPHS], ROWS),
    )
    found = graph.propagate(x).view(len(GRAPHS), ROWS, -1)
    for own, one in zip(found, GRAPHS, strict=True):
        torch.testing.assert_close(own[: one.num_nodes], one.adjacency().propagate(one.x))
        assert bool((own[one.num_nodes :] == 0).all())


def test_entries_stay_sorted_by_target() -> None:
    graph = one_graph([one.adjacency() for one in GRAPHS], ROWS)
    place = graph.edge_index[1] * graph.num_nodes + graph.edge_index[0]
    assert bool((place.diff() > 0).all())
    assert graph.num_nodes == ROWS * len(GRAPHS)
    assert torch.equal(graph.loops.view(len(GRAPHS), ROWS)[3], torch.ones(ROWS))


def test_sums_in_order_have_the_values_and_gradients_of_scattered_ones() -> None:
    graph = one_graph([one.adjacency() for one in GRAPHS], ROWS)
    source, target = graph.edge_index
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(graph.num_nodes, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    outer = torch.randn(graph.num_nodes, 4, dtype=torch.float64, generator=generator)

    def through() -> torch.Tensor:
        rows = x.index_select(-2, source) * 2
        index = target.view(-1, 1).expand_as(rows)
        return rows.new_zeros(graph.num_nodes, 4).scatter_add_(-2, index, rows)

    plain = through()
    (wanted,) = torch.autograd.grad((plain * outer).sum(), x)
    with OrderedSums([graph]):
        ordered = through()
    assert "_Sum" in str(ordered.grad_fn.next_functions)
    (found,) = torch.autograd.grad((ordered * outer).sum(), x)
    torch.testing.assert_close(ordered, plain)
    torch.testing.assert_close(found, wanted)


def test_other_indices_are_left_alone() -> None:
    graph = one_graph([one.adjacency() for one in GRAPHS], ROWS)
    x = torch.randn(graph.num_nodes, 3)
    own = graph.edge_index[0].clone()
    with OrderedSums([graph]):
        assert torch.equal(x.index_select(0, own), x[own])
        turned = x.T.index_select(1, graph.edge_index[0])
    assert torch.equal(turned, x.T[:, own])


def test_a_node_without_links_sums_to_nothing() -> None:
    ends = Ends.of(torch.tensor([2, 0, 2]), 4)
    assert ends.summed(torch.tensor([[1.0], [2.0], [3.0]])).tolist() == [[2.0], [0.0], [4.0], [0.0]]
    assert ends.gathered(torch.tensor([[1.0], [2.0], [3.0], [4.0]])).tolist() == [[3.0], [1.0], [3.0]]
