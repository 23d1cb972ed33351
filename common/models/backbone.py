"""The node classifier: a stack of convolutions."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.convolutions import FAMILIES

DRAWS = 1 << 16


def dropout(
    x: Float[Tensor, "*shape"], rate: float, generator: torch.Generator | None
) -> Float[Tensor, "*shape"]:
    """Inverted dropout whose mask comes from `generator`; without one, the identity (evaluation).

    The rate counts to 1/65,536: four entries share one draw of 64 bits, which costs a third of a Bernoulli draw each.
    """
    if generator is None or rate == 0:
        return x
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
    bits = draws.random_(-(1 << 63), None, generator=generator).view(torch.int16)[: x.numel()].view(x.shape)
    dropped = round(rate * DRAWS)
    return x * (bits >= dropped - DRAWS // 2) * (DRAWS / (DRAWS - dropped))


class Backbone(NodeClassifier):
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
