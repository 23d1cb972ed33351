"""What a client trains on: its graph, a condensed one, or one that a method puts together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

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

    @cached_property
    def rows(self) -> Int[Tensor, " rows"]:
        """The nodes under the mask."""
        return self.mask.nonzero().squeeze(1)

    @cached_property
    def balanced(self) -> Examples:
        """The same, with labels that weigh the same by class (`class_balanced`)."""
        weight = self.mask.to(self.x.dtype) if self.weight is None else self.weight
        return replace(self, weight=class_balanced(self.y, weight))

    def loss(self, logits: Float[Tensor, "nodes classes"]) -> Float[Tensor, ""]:
        """Cross-entropy of the labels that are learned, at least one, their weighted mean.

        Args:
            logits: of every node.
        """
        if self.weight is None:
            return functional.cross_entropy(logits.index_select(0, self.rows), self.y[self.rows])
        return weighted_entropy(logits, self.y, self.weight)


def label_weights(
    labels: Int[Tensor, " nodes"], trained: Bool[Tensor, " nodes"], pseudo: float
) -> Float[Tensor, " nodes"]:
    """1 for the label of a training node, `pseudo` for another one, 0 without a label (-1)."""
    return torch.where(trained, 1.0, pseudo) * (labels >= 0)


def class_balanced(labels: Int[Tensor, " nodes"], weight: Float[Tensor, " nodes"]) -> Float[Tensor, " nodes"]:
    """w_v · W / (C W_c) for a node v of class c: all classes weigh the same, and together what they weighed before.

    W_c is the sum of the weights of class c, W that of all, C the number of classes with W_c > 0. Where all weigh 1
    that is n / (C n_c), which scikit-learn calls balanced (King and Zeng, 2001). A class without a label that is
    learned has no term, and does not count in C.

    Args:
        labels: at least 0 wherever the weight is above 0.
        weight: of each label, at least 0.
    """
    own = labels.clamp(min=0)
    sums = torch.zeros(int(own.max()) + 1 if len(own) else 1, dtype=torch.float64, device=weight.device)
    sums.index_add_(0, own, weight.double())
    factor = sums.sum() / ((sums > 0).sum() * sums).where(sums > 0, 1)
    return weight * factor[own].to(weight.dtype)


def weighted_entropy(
    logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"], weight: Float[Tensor, " nodes"]
) -> Float[Tensor, ""]:
    """Σ w_v CE_v / Σ w_v; labels of weight 0 are not read."""
    losses = functional.cross_entropy(logits, labels.clamp(min=0), reduction="none")
    return (losses * weight).sum() / weight.sum()
