"""Pseudo-labels of self-training (FedGC, phase 3)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from common.graph import Graph


def with_pseudo_labels(
    graph: Graph, logits: Float[Tensor, "nodes classes"], confidence: float
) -> tuple[Int[Tensor, " nodes"], Bool[Tensor, " nodes"]]:
    """Labels that may be learned, and whose they are: training nodes', and those that a model is sure of.

    Nodes of validation and test never join, nor does any of their labels.

    Args:
        graph: of the client.
        logits: of a model, for every node.
        confidence: least probability of the predicted class.

    Returns:
        labels, −1 where there is none to learn; and where there is one.
    """
    probability, predicted = logits.softmax(1).max(1)
    open_nodes = ~(graph.train_mask | graph.val_mask | graph.test_mask)
    sure = open_nodes & (probability >= confidence)
    y = torch.where(graph.train_mask, graph.y, torch.where(sure, predicted, -1))
    return y, graph.train_mask | sure
