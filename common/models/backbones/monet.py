"""Mixture model network (Monti et al., 2017), by PyTorch Geometric's operator."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.projected import Projected
from fedtag.common.models.backbones.settings import MonetConfig
from fedtag.common.models.geometric import GMMConv
from fedtag.common.settings.sections import ModelConfig, Section


class MoNet(nn.Module):
    """Mixture of Gaussians over degrees (Monti et al., 2017, Eq. 11): W x_v + the neighbours' mean of Σ_k w_k(u) G_k x.

    w_k is a Gaussian of the pseudo-coordinates u = tanh(B (1/√d_v, 1/√d_u) + b) of a link from u to v; B and b, the
    means and the diagonal covariances are learned. A degree d counts weights, and the node's self-loop, so that no
    coordinate is infinite; else the weights are ignored.

    Args:
        kernels: Gaussians.
        inputs, outputs: dimensions of a node.
    """

    def __init__(self, kernels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.coordinates = nn.Linear(2, 2)
        self.conv = GMMConv(inputs, outputs, dim=2, kernel_size=kernels)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        source, target = links = adjacency.edge_index_without_loops
        scale = adjacency.loops.sqrt()
        pairs = torch.stack([scale[target], scale[source]], dim=1)
        return self.conv(x, links, self.coordinates(pairs).tanh())


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Projected:
    """These layers between two linear maps; arguments as of `BackboneSpec.build`."""
    assert isinstance(table, MonetConfig)
    layer = partial(MoNet, table.kernels)
    return Projected(layer, inputs, hidden, classes, model.layers, model.dropout, skip=skip)
