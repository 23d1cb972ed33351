"""The backbone: simplified graph convolution (Wu et al., 2019) with two linear maps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.extension import Adjacency, ModelConfig, NodeClassifier, Section, Stage, Values, dropout
from fedtag_example.settings import TwiceLinearConfig


class TwiceLinear(NodeClassifier):
    """X_0 = X, X_k = (1 - α) Â X_(k-1) + α X; logits (X_K W_1) W_2 + b.

    Args:
        inputs: feature dimension d.
        hidden: width h between the two maps.
        classes: number of classes C.
        hops: K, at least 1.
        restart: α in [0, 1].
        rate: dropout rate in [0, 1).
        skip: add a linear map of the input to the logits.
    """

    def __init__(
        self, inputs: int, hidden: int, classes: int, hops: int, restart: float, rate: float, skip: bool
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, hidden, bias=False)
        self.outer = nn.Linear(hidden, classes)
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.hops, self.restart, self.rate = hops, restart, rate

    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        x = dropout(x, self.rate, generator)
        # The first map has fewer columns than the features, and commutes with propagation.
        mapped = propagated = self.inner(x)
        for _ in range(self.hops):
            propagated = (1 - self.restart) * adjacency.propagate(propagated) + self.restart * mapped
        logits = self.outer(dropout(propagated, self.rate, generator))
        return propagated, logits if self.skip is None else logits + self.skip(x)

    def stages(self) -> Sequence[Stage]:
        """The first map, each hop, the second map."""

        def begin(values: Values, adjacency: Adjacency) -> Values:
            mapped = self.inner(values[0])
            return (mapped, mapped) if self.skip is None else (mapped, mapped, self.skip(values[0]))

        def hop(values: Values, adjacency: Adjacency) -> Values:
            propagated, mapped, *added = values
            return (
                (1 - self.restart) * adjacency.propagate(propagated) + self.restart * mapped,
                mapped,
                *added,
            )

        def end(values: Values, adjacency: Adjacency) -> Values:
            logits = self.outer(values[0])
            return values[0], logits if self.skip is None else logits + values[2]

        return [Stage(0, begin), *[Stage(1, hop)] * self.hops, Stage(0, end)]


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> TwiceLinear:
    """As many hops as layers; arguments as of `BackboneSpec.build`."""
    assert isinstance(table, TwiceLinearConfig)
    return TwiceLinear(inputs, hidden, classes, model.layers, table.restart, model.dropout, skip)
