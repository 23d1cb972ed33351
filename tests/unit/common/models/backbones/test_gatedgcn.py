from __future__ import annotations

import torch
from torch import nn

from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.backbones.gatedgcn import GatedGCN
from fedtag.common.models.backbones.projected import Projected
from tests.unit.common.models.small import NODES, adjacency, backbone, edges, features, links


def formula(module: nn.Module, h: torch.Tensor, linked: torch.Tensor) -> torch.Tensor:
    """Over all pairs of nodes: target, source, column."""
    conv = module.conv
    gate = torch.sigmoid(conv.lin_key(h)[:, None] + conv.lin_query(h)[None])
    return conv.lin_skip(h) + conv.bias + (linked[:, :, None] * gate * conv.lin_value(h)[None]).sum(1)


def test_it_is_the_closed_form_with_residuals_between_two_maps() -> None:
    x, matrix, model = features(), adjacency(), backbone("gatedgcn", layers=3)
    assert isinstance(model, Projected)
    h = model.first(x)
    for layer in model.layers:
        h = h + formula(layer, h, links(matrix)).relu()
    hidden, logits = model.hidden_and_logits(x, matrix)
    torch.testing.assert_close(hidden, h)
    torch.testing.assert_close(logits, model.last(h))


def test_closed_gates_leave_a_net_of_nodes() -> None:
    x, model = features(), backbone("gatedgcn")
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, GatedGCN):
                module.conv.lin_key.bias.fill_(-torch.inf)
    alone = normalised_adjacency(edges()[:, :0], NODES)
    assert torch.equal(model(x, adjacency()), model(x, alone))
