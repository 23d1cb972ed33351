"""Graph convolution (Kipf and Welling, 2017), with the parameters of PyTorch Geometric's operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.geometric import GCNConv
from fedtag.common.settings.sections import ModelConfig, Section


class GCN(nn.Module):
    """Graph convolution of Kipf and Welling (2017): Â X W + b, with the weights of the adjacency."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = GCNConv(inputs, outputs, normalize=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        # The operator's own product would gather a row for every entry.
        return adjacency.propagate(self.conv.lin(x)) + self.conv.bias


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(GCN, inputs, hidden, classes, model.layers, model.dropout, skip)
