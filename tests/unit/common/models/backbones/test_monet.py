from __future__ import annotations

import torch
from torch import nn

from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.backbones.monet import MoNet
from fedtag.common.models.backbones.projected import Projected
from fedtag.common.models.backbones.sage import SAGE
from tests.unit.common.models.small import (
    NODES,
    adjacency,
    backbone,
    dense,
    edges,
    features,
    links,
    weights,
)

KERNELS = 3


def formula(module: nn.Module, h: torch.Tensor, degree: torch.Tensor, linked: torch.Tensor) -> torch.Tensor:
    """Over all pairs of nodes, target by source; degrees count weights and the self-loop."""
    conv, scale = module.conv, degree.rsqrt()
    pairs = torch.stack([scale[:, None].expand_as(linked), scale[None].expand_as(linked)], dim=2)
    u = torch.tanh(pairs @ module.coordinates.weight.T + module.coordinates.bias)
    apart = (u[:, :, None] - conv.mu) ** 2 / conv.sigma**2
    gauss = torch.exp(-0.5 * apart.sum(3))
    mapped = (h @ conv.g).view(len(h), KERNELS, -1)
    mean = linked / linked.sum(1, keepdim=True)
    return torch.einsum("ij,ijk,jko->io", mean, gauss, mapped) + conv.root(h) + conv.bias


def test_it_is_the_closed_form_between_two_maps() -> None:
    x, matrix, model = features(), adjacency(), backbone("monet")
    assert isinstance(model, Projected)
    degree = 1 + torch.zeros(NODES).index_add(0, edges()[1], weights())
    torch.testing.assert_close(dense(matrix).diagonal(), 1 / degree)
    h = model.first(x)
    for layer in model.layers:
        h = formula(layer, h, degree, links(matrix)).relu()
    torch.testing.assert_close(model(x, matrix), model.last(h))


def test_on_a_regular_graph_it_is_sage() -> None:
    """All coordinates are equal there, and the Gaussians are numbers."""
    torch.manual_seed(0)
    monet, sage = MoNet(KERNELS, 5, 4), SAGE(5, 4)
    ring = torch.stack([torch.arange(NODES), (torch.arange(NODES) + 1) % NODES])
    matrix = normalised_adjacency(torch.cat([ring, ring.flip(0)], dim=1), NODES)
    conv = monet.conv
    with torch.no_grad():
        u = torch.tanh(monet.coordinates(torch.full((2,), 3**-0.5)))
        gauss = torch.exp(-0.5 * ((u - conv.mu) ** 2 / conv.sigma**2).sum(1))
        sage.conv.lin_l.weight.copy_(torch.einsum("k,iko->oi", gauss, conv.g.view(5, KERNELS, 4)))
        sage.conv.lin_l.bias.copy_(conv.bias)
        sage.conv.lin_r.weight.copy_(conv.root.weight)
    torch.testing.assert_close(monet(features(), matrix), sage(features(), matrix), atol=1e-6, rtol=1e-6)


def test_a_setting_says_how_many_gaussians() -> None:
    model = backbone("monet", kernels=5)
    assert isinstance(model, Projected)
    assert [layer.conv.mu.shape for layer in model.layers] == [(5, 2), (5, 2)]
