"""What every classifier of nodes answers: their embeddings and their logits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.errors import ConfigError
from fedtag.common.graph import Adjacency, normalised_adjacency

Values = tuple[Tensor, ...]
"""Tables with a row for each node."""


@dataclass(frozen=True)
class Stage:
    """A part of a classifier of which a node's row depends on the rows of near nodes alone.

    Args:
        hops: how near: 0 for a node itself, 1 for the sources of its entries, and so on.
        apply: from tables over some nodes and the propagation between them, the next tables over the same nodes;
            without dropout.
    """

    hops: int
    apply: Callable[[Values, Adjacency], Values]


class NodeClassifier(nn.Module, ABC):
    """A classifier of the nodes of a graph. Dropout is on if and only if a generator is given.

    Attributes:
        sums: whether it adds up what neighbours say, by its specification.
    """

    sums = False

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

    def stages(self) -> Sequence[Stage]:
        """The same without dropout, one stage after the other: from (x,) to (hidden, logits).

        By them a graph is computed that does not fit, each over all nodes before the next, some nodes at a time.

        Raises:
            ConfigError: the classifier does not say any.
        """
        raise without_stages(self)

    def embedding(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes hidden"]:
        """What tells nodes apart early in the model, without dropout."""
        return self.hidden_and_logits(x, adjacency)[0]


def stages_of(model: nn.Module) -> Sequence[Stage]:
    """`NodeClassifier.stages`.

    Raises:
        ConfigError: the model is no such classifier, or does not say any.
    """
    if isinstance(model, NodeClassifier):
        return model.stages()
    raise without_stages(model)


def hops_of(model: nn.Module) -> int:
    """How far away nodes may be that a node's logits depend on; raises as `stages_of`."""
    return sum(stage.hops for stage in stages_of(model))


@torch.no_grad()
def representation_width(model: NodeClassifier, inputs: int) -> int:
    """The columns of a classifier's representations, which need not be as many as its hidden width: those of a node.

    Args:
        model: on the CPU.
        inputs: feature dimension.
    """
    alone = normalised_adjacency(torch.zeros(2, 0, dtype=torch.long), 1)
    return model.hidden_and_logits(torch.zeros(1, inputs), alone)[0].shape[1]


def without_stages(model: nn.Module) -> ConfigError:
    """What is said of a model that cannot be computed in parts."""
    return ConfigError(
        f"{type(model).__name__} cannot be computed in batches, since it says no stages: set train.batch-size = 0, or "
        "override `NodeClassifier.stages`"
    )
