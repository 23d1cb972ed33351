"""A node classifier of convolutions between two linear maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, Stage, Values
from fedtag.common.models.dropout import dropout


class Projected(NodeClassifier):
    """A linear map to width h, convolutions with ReLU, a linear map to the classes (Dwivedi et al., 2023).

    Layers that have several matrices of their own see h columns where a stack of them would see d. Dropout is before
    each of them.

    Args:
        layer: of (inputs, outputs), called as layer(x, adjacency); it reads one hop.
        inputs: feature dimension d.
        hidden: width h.
        classes: number of classes C.
        layers: convolutions, at least 1.
        rate: dropout rate in [0, 1).
        residual: add to each convolution what it reads.
        skip: add a linear map of the input to the logits.
    """

    def __init__(
        self,
        layer: Callable[[int, int], nn.Module],
        inputs: int,
        hidden: int,
        classes: int,
        layers: int,
        rate: float,
        residual: bool = False,
        skip: bool = False,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.layers = nn.ModuleList(layer(hidden, hidden) for _ in range(layers))
        self.last = nn.Linear(hidden, classes)
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.rate, self.residual = rate, residual

    def _through(self, layer: nn.Module, read: Tensor, adjacency: Adjacency) -> Tensor:
        found = functional.relu(layer(read, adjacency))
        return read + found if self.residual else found

    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        """What the last linear map reads, and the logits."""
        x = dropout(x, self.rate, generator)
        hidden = self.first(x)
        for layer in self.layers:
            hidden = self._through(layer, dropout(hidden, self.rate, generator), adjacency)
        logits = self.last(dropout(hidden, self.rate, generator))
        return hidden, logits if self.skip is None else logits + self.skip(x)

    def stages(self) -> Sequence[Stage]:
        """The first map, each convolution, the last map; what the skip adds goes beside the hidden state."""

        def begin(values: Values, adjacency: Adjacency) -> Values:
            (x,) = values
            return self.first(x), *(() if self.skip is None else (self.skip(x),))

        def middle(layer: nn.Module) -> Callable[[Values, Adjacency], Values]:
            return lambda values, adjacency: (self._through(layer, values[0], adjacency), *values[1:])

        def end(values: Values, adjacency: Adjacency) -> Values:
            hidden, *added = values
            return hidden, sum(added, self.last(hidden))

        return [Stage(0, begin), *(Stage(1, middle(layer)) for layer in self.layers), Stage(0, end)]

    def embedding(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes hidden"]:
        """The first convolution, before the activation."""
        hidden: Tensor = self.layers[0](self.first(x), adjacency)
        return hidden
