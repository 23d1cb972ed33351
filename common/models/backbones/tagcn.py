"""Topology-adaptive graph convolution (Du et al., 2017), with the parameters of PyTorch Geometric's operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.geometric import TAGConv
from fedtag.common.settings.sections import ModelConfig, Section


class TAGCN(nn.Module):
    """Topology-adaptive graph convolution (Du et al., 2017) of two hops: Σ_k Â^k X W_k + b for k = 0, 1, 2.

    Every power of the adjacency has weights of its own. They can have opposite signs and so keep what
    differs between neighbours, as graphs need on which neighbours mostly have other labels.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = TAGConv(inputs, outputs, K=2, normalize=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        first, *others = self.conv.lins
        found: Tensor = first(x) + self.conv.bias
        for linear in others:
            x = adjacency.propagate(x)
            found = found + linear(x)
        return found


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(TAGCN, inputs, hidden, classes, model.layers, model.dropout, skip, reach=2)
