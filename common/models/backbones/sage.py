"""GraphSAGE with mean aggregation (Hamilton et al., 2017), with the parameters of PyTorch Geometric's operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.geometric import SAGEConv
from fedtag.common.settings.sections import ModelConfig, Section


class SAGE(nn.Module):
    """GraphSAGE with mean aggregation (Hamilton et al., 2017): W1 x_v + W2 mean of the neighbours, which weigh alike.

    The node itself is not among its neighbours.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = SAGEConv(inputs, outputs)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv.lin_l(adjacency.neighbour_mean.propagate(x)) + self.conv.lin_r(x)


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(SAGE, inputs, hidden, classes, model.layers, model.dropout, skip)
