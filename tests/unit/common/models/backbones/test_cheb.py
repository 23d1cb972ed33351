from __future__ import annotations

import torch
from torch_geometric.nn import ChebConv

from fedtag.client.train.neighbourhoods import Neighbourhoods
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.backbones.cheb import Cheb, shifted_laplacian
from fedtag.common.models.classifier import hops_of
from tests.unit.common.models.small import NODES, backbone, dense, edges, features, generator, path


def symmetric() -> torch.Tensor:
    half = torch.rand(NODES + 1, generator=generator(1)) + 0.5
    return torch.cat([half, half])


def test_it_is_pygs_own_normalisation() -> None:
    layer = Cheb(4, 5, 3)
    plain = ChebConv(5, 3, 4)
    with torch.no_grad():
        layer.bias.copy_(torch.arange(3.0))
        plain.bias.copy_(layer.bias)
        for own, other in zip(layer.maps, plain.lins, strict=True):
            other.weight.copy_(own.weight)
    matrix = normalised_adjacency(edges(), NODES, symmetric())
    expected = plain(features(), edges(), symmetric(), lambda_max=torch.tensor(2.0))
    torch.testing.assert_close(layer(features(), matrix), expected)


def test_it_is_the_closed_form() -> None:
    weight = torch.zeros(NODES, NODES)
    weight[edges()[1], edges()[0]] = symmetric()
    scale = weight.sum(1).rsqrt()
    shifted = -scale[:, None] * weight * scale
    matrix = normalised_adjacency(edges(), NODES, symmetric())
    torch.testing.assert_close(dense(shifted_laplacian(matrix)), shifted)
    assert float(torch.linalg.eigvalsh(dense(shifted_laplacian(matrix))).abs().max()) <= 1 + 1e-5

    layer, x = Cheb(3, 5, 2), features()
    terms = [x, shifted @ x, 2 * shifted @ shifted @ x - x]
    expected = sum(term @ own.weight.T for term, own in zip(terms, layer.maps, strict=True))
    torch.testing.assert_close(layer(x, matrix), expected)


def test_on_a_path_with_two_terms() -> None:
    layer = Cheb(2, 1, 1)
    with torch.no_grad():
        for linear in layer.maps:
            linear.weight.fill_(1)
    torch.testing.assert_close(layer(torch.tensor([[1.0], [3.0]]), path()), torch.tensor([[-2.0], [2.0]]))


def test_one_term_is_a_linear_map() -> None:
    layer, x = Cheb(1, 5, 3), features()
    matrix = normalised_adjacency(edges(), NODES)
    torch.testing.assert_close(layer(x, matrix), x @ layer.maps[0].weight.T)
    assert hops_of(backbone("cheb", terms=1)) == 0


def test_the_entries_of_a_part_are_those_of_the_whole() -> None:
    """Whose degrees the part does not have."""
    matrix = normalised_adjacency(edges(), NODES, symmetric())
    part = Neighbourhoods(matrix).reached(torch.tensor([0]), 1)
    whole = dense(shifted_laplacian(matrix))[0, part.nodes]
    torch.testing.assert_close(dense(shifted_laplacian(part.adjacency))[part.targets[0]], whole)


def test_links_that_weigh_nothing_leave_a_node_alone() -> None:
    matrix = normalised_adjacency(torch.tensor([[0, 1], [1, 0]]), 2, torch.full((2,), 1e-12))
    assert torch.equal(dense(shifted_laplacian(matrix)), torch.zeros(2, 2))
