"""A node classifier that predicts from features alone, and then propagates its predictions."""

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


def pagerank_weights(hops: int, restart: float) -> Float[Tensor, " powers"]:
    """γ of personalised PageRank after K steps (Klicpera et al., 2019): α (1 - α)^k for k < K, and (1 - α)^K.

    Args:
        hops: K, at least 1.
        restart: α in [0, 1].
    """
    stays = (1 - restart) ** torch.arange(hops + 1, dtype=torch.float64)
    stays[:-1] *= restart
    return stays.float()


class Propagated(NodeClassifier):
    """Logits Σ_k γ_k Â^k H for k = 0 ... K, where H = MLP(X) has a column for each class.

    The representation of a node is what the last map of the MLP reads, propagated once: Â times it.

    Args:
        inputs: feature dimension d.
        hidden: width h of the MLP.
        classes: number of classes C.
        layers: linear maps of the MLP, at least 2, with ReLU between them and dropout before each.
        rate: dropout rate in [0, 1).
        weights: γ, of K + 1 numbers, K at least 1; learned if it is a parameter.
        skip: add a linear map of the input to the logits.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        classes: int,
        layers: int,
        rate: float,
        weights: Float[Tensor, " powers"],
        skip: bool = False,
    ) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * (layers - 1), classes]
        self.maps = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.skip = nn.Linear(inputs, classes) if skip else None
        self.rate = rate
        if isinstance(weights, nn.Parameter):
            self.weights: Tensor = weights
        else:
            # No part of the state: it is a setting, and neither sent nor averaged.
            self.register_buffer("weights", weights, persistent=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> Float[Tensor, "nodes classes"]:
        """The logits alone, which need no representation."""
        return self._predicted(x, adjacency, generator)[1]

    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        hidden, logits = self._predicted(x, adjacency, generator)
        return adjacency.propagate(hidden), logits

    def _predicted(
        self, x: Tensor, adjacency: Adjacency, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """The last hidden state of the MLP, which knows no neighbours, and the logits."""
        x = dropout(x, self.rate, generator)
        hidden = self._hidden(x, generator)
        own = self.maps[-1](dropout(hidden, self.rate, generator))
        found = self.weights[-1] * own
        for weight in self.weights[:-1].flip(0):
            found = adjacency.propagate(found) + weight * own
        return hidden, found if self.skip is None else found + self.skip(x)

    def _hidden(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        hidden = functional.relu(self.maps[0](x))
        for linear in list(self.maps)[1:-1]:
            hidden = functional.relu(linear(dropout(hidden, self.rate, generator)))
        return hidden

    def stages(self) -> Sequence[Stage]:
        """The MLP and each hop; H, the hidden state and what the skip adds go beside."""

        def begin(values: Values, adjacency: Adjacency) -> Values:
            (x,) = values
            hidden = self._hidden(x, None)
            own = self.maps[-1](hidden)
            return self.weights[-1] * own, own, hidden, *(() if self.skip is None else (self.skip(x),))

        def hop(weight: Tensor) -> Callable[[Values, Adjacency], Values]:
            def apply(values: Values, adjacency: Adjacency) -> Values:
                found, own, *others = values
                return adjacency.propagate(found) + weight * own, own, *others

            return apply

        def end(values: Values, adjacency: Adjacency) -> Values:
            found, own, hidden, *added = values
            logits = adjacency.propagate(found) + self.weights[0] * own
            return adjacency.propagate(hidden), sum(added, logits)

        hops = [Stage(1, hop(weight)) for weight in self.weights[1:-1].flip(0)]
        return [Stage(0, begin), *hops, Stage(1, end)]
