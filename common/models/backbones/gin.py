"""Graph isomorphism network (Xu et al., 2019), with the parameters of PyTorch Geometric's operator."""

from __future__ import annotations

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.geometric import GINConv
from fedtag.common.settings.sections import ModelConfig, Section


class GIN(nn.Module):
    """Graph isomorphism layer (Xu et al., 2019, Eq. 4.1): MLP((1 + ε) x_v + Σ of the neighbours), ε learned from 0.

    The sum tells how many neighbours there are, which a mean does not; links weigh alike, and the node itself is not
    among its neighbours. The MLP has one hidden layer and no normalisation.

    Args:
        width: of the MLP's hidden layer.
        inputs, outputs: dimensions of a node.
    """

    def __init__(self, width: int, inputs: int, outputs: int) -> None:
        inner = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))
        super().__init__()
        self.conv = GINConv(inner, train_eps=True)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        found: Tensor = self.conv.nn((1 + self.conv.eps) * x + adjacency.links.propagate(x))
        return found


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(partial(GIN, hidden), inputs, hidden, classes, model.layers, model.dropout, skip)
