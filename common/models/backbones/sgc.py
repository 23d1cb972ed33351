"""Simplified graph convolution (Wu et al., 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.settings import SgcConfig
from fedtag.common.models.classifier import NodeClassifier, Stage, Values
from fedtag.common.models.dropout import dropout
from fedtag.common.settings.sections import ModelConfig, Section


class SGC(NodeClassifier):
    """Simplified graph convolution (Wu et al., 2019): logits Â^K X W + b, which is convex in W and b.

    The representation of a node is its row of Â^K X, as wide as the features; dropout is of it.

    Args:
        inputs: feature dimension d.
        classes: number of classes C.
        hops: K, at least 1.
        rate: dropout rate in [0, 1).
        skip: add a linear map of the input to the logits.
    """

    def __init__(self, inputs: int, classes: int, hops: int, rate: float, skip: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.hops, self.rate = hops, rate

    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes inputs"], Float[Tensor, "nodes classes"]]:
        """Â^K X, and the logits."""
        smooth = adjacency.power(x, self.hops)
        logits = self.linear(dropout(smooth, self.rate, generator))
        return smooth, logits if self.skip is None else logits + self.skip(dropout(x, self.rate, generator))

    def stages(self) -> Sequence[Stage]:
        """Each hop and the linear map; what the skip adds goes beside."""

        def begin(values: Values, adjacency: Adjacency) -> Values:
            return *values, *(() if self.skip is None else (self.skip(values[0]),))

        def hop(values: Values, adjacency: Adjacency) -> Values:
            return adjacency.propagate(values[0]), *values[1:]

        def end(values: Values, adjacency: Adjacency) -> Values:
            smooth, *added = values
            return smooth, sum(added, self.linear(smooth))

        return [Stage(0, begin), *[Stage(1, hop)] * self.hops, Stage(0, end)]


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> SGC:
    """One linear map, whatever width and number of layers; arguments as of `BackboneSpec.build`."""
    assert isinstance(table, SgcConfig)
    return SGC(inputs, classes, table.hops, model.dropout, skip)
