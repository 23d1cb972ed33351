"""GraphSAGE with mean aggregation (Hamilton et al., 2017), by PyTorch Geometric's operator."""

from __future__ import annotations

from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.backbones.unweighted import Unweighted
from fedtag.common.models.geometric import SAGEConv
from fedtag.common.settings.sections import ModelConfig, Section


class SAGE(Unweighted):
    """GraphSAGE with mean aggregation (Hamilton et al., 2017): W1 x_v + W2 mean of the neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(SAGEConv(inputs, outputs))


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    return Backbone(SAGE, inputs, hidden, classes, model.layers, model.dropout, skip)
