"""A node classifier as a stack of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, Stage, Values
from fedtag.common.models.dropout import dropout


class Backbone(NodeClassifier):
    """`layers` convolutions with ReLU between them and dropout before each.

    Args:
        layer: of (inputs, outputs), called as layer(x, adjacency).
        inputs: feature dimension d.
        hidden: width h of all inner layers.
        classes: number of classes C.
        layers: at least 2.
        rate: dropout rate in [0, 1).
        skip: add a linear map of the input to the logits, which no neighbour blurs.
        reach: hops over which a layer reads.
    """

    def __init__(
        self,
        layer: Callable[[int, int], nn.Module],
        inputs: int,
        hidden: int,
        classes: int,
        layers: int,
        rate: float,
        skip: bool = False,
        reach: int = 1,
    ) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(layer(a, b) for a, b in pairwise(widths))
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.rate = rate
        self.reach = reach

    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        """The representation before the last layer, after the activation, and the logits."""
        x = dropout(x, self.rate, generator)
        hidden = functional.relu(self.layers[0](x, adjacency))
        for layer in list(self.layers)[1:-1]:
            hidden = functional.relu(layer(dropout(hidden, self.rate, generator), adjacency))
        logits = self.layers[-1](dropout(hidden, self.rate, generator), adjacency)
        return hidden, logits if self.skip is None else logits + self.skip(x)

    def stages(self) -> Sequence[Stage]:
        """A stage for each layer; what the skip adds goes beside the hidden state."""
        first, *inner = list(self.layers)[:-1]

        def begin(values: Values, adjacency: Adjacency) -> Values:
            (x,) = values
            added = () if self.skip is None else (self.skip(x),)
            return functional.relu(first(x, adjacency)), *added

        def middle(layer: nn.Module) -> Callable[[Values, Adjacency], Values]:
            return lambda values, adjacency: (functional.relu(layer(values[0], adjacency)), *values[1:])

        def end(values: Values, adjacency: Adjacency) -> Values:
            logits = self.layers[-1](values[0], adjacency)
            return values[0], logits + values[1] if values[1:] else logits

        steps = [begin, *map(middle, inner), end]
        return [Stage(self.reach, step) for step in steps]

    def embedding(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes hidden"]:
        """The first layer, before the activation."""
        hidden: Tensor = self.layers[0](x, adjacency)
        return hidden
