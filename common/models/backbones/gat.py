"""Graph attention (Velickovic et al., 2018), by PyTorch Geometric's operator."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.geometric import GATConv
from fedtag.common.settings.sections import ModelConfig, Section


class GAT(nn.Module):
    """Graph attention (Velickovic et al., 2018), one head; attention replaces the adjacency's weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = GATConv(inputs, outputs, add_self_loops=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv(x, adjacency.edge_index)


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(GAT, inputs, hidden, classes, model.layers, model.dropout, skip)
