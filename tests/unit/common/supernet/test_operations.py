"""Each operation against a closed form over dense matrices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from fedtag.common.graph import Adjacency
from fedtag.common.models.supernet.activations import FUNCTIONS
from fedtag.common.models.supernet.aggregations import aggregate
from fedtag.common.models.supernet.filters import FeatureGate, NodeGate
from fedtag.common.models.supernet.space import ACTIVATIONS, AGGREGATIONS, ZERO

Make = Callable[..., Adjacency]
KINDS = [kind for kind in AGGREGATIONS if kind != ZERO]


def features(nodes: int = 7, dim: int = 3, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(nodes, dim, generator=generator, dtype=torch.float64)


def dense(adjacency: Adjacency) -> torch.Tensor:
    matrix = torch.zeros(adjacency.num_nodes, adjacency.num_nodes, dtype=torch.float64)
    source, target = adjacency.edge_index
    matrix[target, source] = adjacency.weight
    return matrix


def test_aggregations_are_those_of_dense_matrices(make_adjacency: Make) -> None:
    adjacency, x = make_adjacency(), features()
    matrix = dense(adjacency)
    near = matrix > 0
    torch.testing.assert_close(aggregate("sum", x, adjacency), matrix @ x)
    torch.testing.assert_close(aggregate("mean", x, adjacency), near.double() @ x / near.sum(1, keepdim=True))
    largest = torch.stack([x[row].max(0).values for row in near])
    assert aggregate("max", x, adjacency).equal(largest)
    assert aggregate("identity", x, adjacency).equal(x)


@pytest.mark.parametrize("kind", KINDS)
def test_an_isolated_node_keeps_its_features(make_adjacency: Make, kind: str) -> None:
    x = features()
    torch.testing.assert_close(aggregate(kind, x, make_adjacency())[0], x[0])


@pytest.mark.parametrize("kind", KINDS)
def test_aggregations_have_the_right_gradients(make_adjacency: Make, kind: str) -> None:
    adjacency = make_adjacency()
    assert torch.autograd.gradcheck(lambda x: aggregate(kind, x, adjacency), features().requires_grad_(True))


def test_activations_are_their_formulas() -> None:
    x = features()
    formulas = {
        "identity": x,
        "leaky-relu": torch.where(x > 0, x, 0.01 * x),
        "relu": torch.where(x > 0, x, 0.0),
        "tanh": (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
        "elu": torch.where(x > 0, x, x.exp() - 1),
        "sigmoid": 4 / (1 + (-x).exp()) - 2,
    }
    assert tuple(FUNCTIONS) == ACTIVATIONS
    for kind, expected in formulas.items():
        assert FUNCTIONS[kind](torch.zeros(1)).item() == 0, "nothing in, nothing out"
        torch.testing.assert_close(FUNCTIONS[kind](x), expected)
        assert torch.autograd.gradcheck(FUNCTIONS[kind], x.clone().requires_grad_(True))


def test_gates_are_their_formulas() -> None:
    torch.manual_seed(0)
    x, h, before = features(), features(seed=2), features(seed=3)
    context = torch.cat([h, before], dim=1)
    node, feature = NodeGate(3).double(), FeatureGate(3).double()
    own, bias = node.query.weight, node.query.bias
    factor = 1 / (1 + (-(h @ own[0, :3] + before @ own[0, 3:] + bias)).exp())
    torch.testing.assert_close(node(x, context), torch.diag(factor) @ x)
    inner = functional.relu(context @ feature.inner.weight.T + feature.inner.bias)
    scale = 1 / (1 + (-(inner @ feature.outer.weight.T + feature.outer.bias)).exp())
    torch.testing.assert_close(feature(x, context), scale * x)
    for gate in (node, feature):
        assert torch.autograd.gradcheck(
            gate, (x.clone().requires_grad_(True), context.clone().requires_grad_(True))
        )
