from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.graph import Graph, normalised_adjacency


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, torch.Tensor, torch.Tensor]:
    """A number of nodes, edges without self-loops or duplicates (directed), and weights."""
    nodes = draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    weights = draw(st.lists(st.floats(0, 100, width=32), min_size=len(chosen), max_size=len(chosen)))
    edges = torch.tensor(chosen, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return nodes, edges, torch.tensor(weights, dtype=torch.float32)


def dense(nodes: int, edges: torch.Tensor, weights: torch.Tensor) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2 in float64, with targets as rows and the degrees of targets."""
    matrix = np.eye(nodes)
    for (source, target), weight in zip(edges.T.tolist(), weights.tolist(), strict=True):
        matrix[target, source] += weight
    scale = 1 / np.sqrt(matrix.sum(1))
    return scale[:, None] * matrix * scale[None, :]


@given(edge_lists())
def test_normalisation_and_propagation_equal_the_dense_formula(
    graph: tuple[int, torch.Tensor, torch.Tensor],
) -> None:
    nodes, edges, weights = graph
    adjacency = normalised_adjacency(edges, nodes, weights)
    expected = dense(nodes, edges, weights)
    matrix = np.zeros((nodes, nodes))
    source, target = adjacency.edge_index.numpy()
    matrix[target, source] = adjacency.weight.double().numpy()
    np.testing.assert_allclose(matrix, expected, atol=1e-6)
    assert adjacency.edge_index.shape[1] == edges.shape[1] + nodes

    keys = (target * nodes + source).tolist()
    assert keys == sorted(keys)
    assert bool((adjacency.edge_index_without_loops[0] != adjacency.edge_index_without_loops[1]).all())
    assert adjacency.edge_index_without_loops.shape[1] == edges.shape[1]

    x = torch.from_numpy(np.random.default_rng(0).standard_normal((nodes, 3)).astype(np.float32))
    kept = x.clone()
    np.testing.assert_allclose(
        adjacency.propagate(x).double().numpy(), expected @ x.double().numpy(), atol=1e-5
    )
    assert torch.equal(x, kept)


@given(edge_lists(), st.randoms(use_true_random=False))
def test_the_order_of_edges_leaves_no_trace(
    graph: tuple[int, torch.Tensor, torch.Tensor], random: object
) -> None:
    nodes, edges, _ = graph
    order = list(range(edges.shape[1]))
    random.shuffle(order)  # type: ignore[attr-defined]
    one, other = normalised_adjacency(edges, nodes), normalised_adjacency(edges[:, order], nodes)
    assert torch.equal(one.edge_index, other.edge_index)
    assert torch.equal(one.weight, other.weight)


def test_weights_default_to_one() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    assert torch.equal(
        normalised_adjacency(edges, 3).weight, normalised_adjacency(edges, 3, torch.ones(4)).weight
    )


@given(edge_lists(), st.lists(st.booleans(), min_size=9, max_size=9))
def test_hiding_nodes_removes_exactly_their_edges(
    graph: tuple[int, torch.Tensor, torch.Tensor], flags: list[bool]
) -> None:
    nodes, edges, weights = graph
    hidden = torch.tensor(flags[:nodes])
    none = torch.zeros(nodes, dtype=torch.bool)
    whole = Graph(
        torch.zeros(nodes, 2), edges, weights, torch.zeros(nodes, dtype=torch.int64), none, none, none, 1
    )
    part = whole.without_edges_of(hidden)
    expected = [
        (a, b, w)
        for (a, b), w in zip(edges.T.tolist(), weights.tolist(), strict=True)
        if not flags[a] and not flags[b]
    ]
    assert [
        (*pair, w) for pair, w in zip(part.edge_index.T.tolist(), part.edge_weight.tolist(), strict=True)
    ] == expected
    assert part.num_nodes == nodes
    assert whole.edge_index.shape == edges.shape


def test_features_can_be_replaced() -> None:
    none = torch.zeros(2, dtype=torch.bool)
    graph = Graph(
        torch.zeros(2, 3),
        torch.zeros(2, 0, dtype=torch.int64),
        torch.zeros(0),
        torch.tensor([0, -1]),
        none,
        none,
        none,
        1,
    )
    other = graph.with_features(torch.ones(2, 5))
    assert other.x.shape == (2, 5)
    assert graph.x.shape == (2, 3)
    assert graph.to("cpu").y.tolist() == [0, -1]
    assert graph.adjacency().weight.tolist() == pytest.approx([1, 1])


@given(edge_lists())
def test_gradients_of_a_product_are_those_of_the_dense_one(
    graph: tuple[int, torch.Tensor, torch.Tensor],
) -> None:
    """Also of directed graphs, whose matrix is not symmetric, and of the gradient itself."""
    nodes, edges, weights = graph
    adjacency = normalised_adjacency(edges, nodes, weights)
    matrix = torch.from_numpy(dense(nodes, edges, weights))
    x = torch.linspace(-1, 1, 3 * nodes, dtype=torch.float64).view(nodes, 3).requires_grad_()
    outer = torch.linspace(1, 2, 3 * nodes, dtype=torch.float64).view(nodes, 3)
    found = torch.autograd.grad((adjacency.propagate(x).square() * outer).sum(), x, create_graph=True)[0]
    wanted = torch.autograd.grad(((matrix @ x).square() * outer).sum(), x, create_graph=True)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    again = [torch.autograd.grad((one * outer).sum(), x)[0] for one in (found, wanted)]
    torch.testing.assert_close(*again, rtol=1e-5, atol=1e-5)


@given(edge_lists())
def test_sums_and_means_of_neighbours_leave_out_the_node(
    graph: tuple[int, torch.Tensor, torch.Tensor],
) -> None:
    nodes, edges, weights = graph
    adjacency = normalised_adjacency(edges, nodes, weights)
    links = torch.zeros(nodes, nodes)
    links[edges[1], edges[0]] = 1
    x = torch.arange(2.0 * nodes).view(nodes, 2)
    torch.testing.assert_close(adjacency.links.propagate(x), links @ x)
    mean = links @ x / links.sum(1, keepdim=True).clamp(min=1)
    torch.testing.assert_close(adjacency.neighbour_mean.propagate(x), mean)


def test_learned_weights_have_gradients() -> None:
    edges = torch.tensor([[0, 1, 2], [1, 0, 1]])
    weights = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    adjacency = normalised_adjacency(edges, 3, weights)
    adjacency.propagate(torch.eye(3)).square().sum().backward()
    assert weights.grad is not None
    assert bool((weights.grad != 0).all())


def test_many_tables_are_propagated_as_each_alone() -> None:
    """By `torch.vmap`, with gradients of each."""
    adjacency = normalised_adjacency(torch.tensor([[0, 1, 2], [1, 0, 1]]), 3)
    tables = torch.arange(24.0).view(4, 3, 2)

    def squared(x: torch.Tensor) -> torch.Tensor:
        return adjacency.propagate(x).square().sum()

    found = torch.vmap(torch.func.grad(squared))(tables)
    assert torch.equal(
        torch.vmap(adjacency.propagate)(tables), torch.stack([*map(adjacency.propagate, tables)])
    )
    torch.testing.assert_close(found, torch.stack([torch.func.grad(squared)(one) for one in tables]))
