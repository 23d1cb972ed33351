"""Pseudo-labels of self-training (FedGC, phase 3)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.data.shadow_nodes import outside_splits
from fedtag.common.graph import Graph


def surest_half(
    graph: Graph, logits: Float[Tensor, "nodes classes"], set_aside: Bool[Tensor, " nodes"]
) -> tuple[Int[Tensor, " nodes"], Bool[Tensor, " nodes"]]:
    """Pseudo-labels alone: of the nodes outside every split, for each class that half of which a model is surest.

    Halves are rounded up. Of all classes together they would leave out those of which a model is never sure. No label
    of the graph is read, so that none is told of by what is learned from these, other than by the model.

    Args:
        graph: of the client.
        logits: of a model, for every node.
        set_aside: nodes that never join.

    Returns:
        labels, −1 where there is none to learn; and where there is one.
    """
    probability, predicted = logits.softmax(1).max(1)
    found = (outside_splits(graph) & ~set_aside).nonzero().squeeze(1)
    found = found[torch.sort(probability[found], descending=True, stable=True).indices]
    found = found[torch.sort(predicted[found], stable=True).indices]
    sizes = torch.bincount(predicted[found], minlength=graph.num_classes)
    rank = torch.arange(found.numel(), device=found.device) - (sizes.cumsum(0) - sizes)[predicted[found]]
    sure = torch.zeros_like(set_aside)
    sure[found[2 * rank < sizes[predicted[found]]]] = True
    return torch.where(sure, predicted, -1), sure


def with_pseudo_labels(
    graph: Graph,
    logits: Float[Tensor, "nodes classes"],
    confidence: float,
    set_aside: Bool[Tensor, " nodes"],
) -> tuple[Int[Tensor, " nodes"], Bool[Tensor, " nodes"]]:
    """Labels that may be learned, and whose they are: training nodes', and those that a model is sure of.

    Nodes of validation and test never join, nor does any of their labels; and none of those that are set aside.

    Args:
        graph: of the client.
        logits: of a model, for every node.
        confidence: least probability of the predicted class.
        set_aside: nodes that are kept for a membership audit (`fedtag.client.data.shadow_nodes`).

    Returns:
        labels, −1 where there is none to learn; and where there is one.
    """
    probability, predicted = logits.softmax(1).max(1)
    open_nodes = outside_splits(graph) & ~set_aside
    sure = open_nodes & (probability >= confidence)
    y = torch.where(graph.train_mask, graph.y, torch.where(sure, predicted, -1))
    return y, graph.train_mask | sure
