"""What a client trains on: its graph, a condensed one, or one that a method puts together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from fedtag.common.graph import Adjacency, Graph
from fedtag.common.synthetic.condensed import Condensed


@dataclass(frozen=True, eq=False)
class Examples:
    """Nodes with features and links, some of which have a label to learn from.

    Args:
        x: features.
        adjacency: propagation between the nodes.
        y: labels; those of other nodes than the chosen ones are not read.
        mask: the nodes whose labels are learned; none is allowed.
        weight: of each node's label, above 0 under the mask and 0 elsewhere; None: all count alike.
    """

    x: Float[Tensor, "nodes dim"]
    adjacency: Adjacency
    y: Int[Tensor, " nodes"]
    mask: Bool[Tensor, " nodes"]
    weight: Float[Tensor, " nodes"] | None = None

    @classmethod
    def of_graph(cls, graph: Graph, adjacency: Adjacency) -> Examples:
        """The training nodes of a graph."""
        return cls(graph.x, adjacency, graph.y, graph.train_mask)

    @classmethod
    def of_condensed(cls, condensed: Condensed) -> Examples:
        """All nodes of a condensed graph."""
        every = condensed.y >= 0
        return cls(condensed.x, condensed.adjacency, condensed.y, every)

    def loss(self, logits: Float[Tensor, "nodes classes"]) -> Float[Tensor, ""]:
        """Cross-entropy of the labels that are learned, at least one, their weighted mean.

        Args:
            logits: of every node.
        """
        if self.weight is None:
            return functional.cross_entropy(logits[self.mask], self.y[self.mask])
        return weighted_entropy(logits, self.y, self.weight)


def label_weights(
    labels: Int[Tensor, " nodes"], trained: Bool[Tensor, " nodes"], pseudo: float
) -> Float[Tensor, " nodes"]:
    """1 for the label of a training node, `pseudo` for another one, 0 without a label (-1)."""
    return torch.where(trained, 1.0, pseudo) * (labels >= 0)


def weighted_entropy(
    logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"], weight: Float[Tensor, " nodes"]
) -> Float[Tensor, ""]:
    """Σ w_v CE_v / Σ w_v; labels of weight 0 are not read."""
    losses = functional.cross_entropy(logits, labels.clamp(min=0), reduction="none")
    return (losses * weight).sum() / weight.sum()
