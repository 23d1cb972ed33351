"""Gated graph convolution with residuals (Bresson and Laurent, 2017), by PyTorch Geometric's operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.projected import Projected
from fedtag.common.models.geometric import ResGatedGraphConv
from fedtag.common.settings.sections import ModelConfig, Section


class GatedGCN(nn.Module):
    """Gated graph convolution (Bresson and Laurent, 2017): W1 x_v + Σ_u σ(W3 x_v + W4 x_u) ⊙ W2 x_u over neighbours u.

    Each link has a gate of its own for each column; links weigh alike, and the node itself is not among its neighbours.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = ResGatedGraphConv(inputs, outputs)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        found: Tensor = self.conv(x, adjacency.edge_index_without_loops)
        return found


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Projected:
    """These layers with residuals between two linear maps; arguments as of `BackboneSpec.build`."""
    return Projected(GatedGCN, inputs, hidden, classes, model.layers, model.dropout, residual=True, skip=skip)
