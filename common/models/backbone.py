"""The node classifier: a stack of convolutions."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from common.graph import Adjacency
from common.models.convolutions import FAMILIES


def dropout(
    x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Inverted dropout whose mask comes from `generator`; without one, the identity (evaluation)."""
    if generator is None or rate == 0:
        return x
    keep = torch.empty_like(x).bernoulli_(1 - rate, generator=generator)
    return x * keep / (1 - rate)


class Backbone(nn.Module):
    """`layers` convolutions with ReLU between them and dropout before each.

    Args:
        family: gcn, sage, gat or mlp.
        inputs: feature dimension d.
        hidden: width h of all inner layers.
        classes: number of classes C.
        layers: at least 2.
        rate: dropout rate in [0, 1).
        skip: add a linear map of the input to the logits, which no neighbour blurs.
    """

    def __init__(
        self,
        family: str,
        inputs: int,
        hidden: int,
        classes: int,
        layers: int,
        rate: float,
        skip: bool = False,
    ) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * (layers - 1), classes]
        layer = FAMILIES[family]
        self.layers = nn.ModuleList(layer(a, b) for a, b in pairwise(widths))
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.rate = rate

    def hidden(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> Float[Tensor, "nodes hidden"]:
        """The representation before the last layer, after the activation."""
        for layer in list(self.layers)[:-1]:
            x = functional.relu(layer(dropout(x, self.rate, generator), adjacency))
        return x

    def classify(
        self,
        hidden: Float[Tensor, "nodes hidden"],
        x: Float[Tensor, "nodes inputs"],
        adjacency: Adjacency,
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "nodes classes"]:
        """Logits from the hidden representation of x."""
        logits = self.layers[-1](dropout(hidden, self.rate, generator), adjacency)
        if self.skip is None:
            return logits
        return logits + self.skip(dropout(x, self.rate, generator))

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> Float[Tensor, "nodes classes"]:
        """Logits. Dropout is on if and only if a generator is given."""
        return self.classify(self.hidden(x, adjacency, generator), x, adjacency, generator)
