"""What every classifier of nodes answers: their embeddings and their logits."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency


class NodeClassifier(nn.Module, ABC):
    """A classifier of the nodes of a graph. Dropout is on if and only if a generator is given."""

    @abstractmethod
    def hidden_and_logits(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        """What the last layer reads of each node, before dropout, and the logits.

        Args:
            x: node features.
            adjacency: with self-loops.
            generator: of dropout.
        """

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, generator: torch.Generator | None = None
    ) -> Float[Tensor, "nodes classes"]:
        """The logits alone."""
        return self.hidden_and_logits(x, adjacency, generator)[1]

    def embedding(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes hidden"]:
        """What tells nodes apart early in the model, without dropout."""
        return self.hidden_and_logits(x, adjacency)[0]
