"""The condenser: the training nodes that the received model has most wrong, chosen anew in every round."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from fedtag.extension import (
    Examples,
    NodeClassifier,
    RunContext,
    SiteData,
    condensed_size,
    normalised_adjacency,
)


@torch.no_grad()
def examples(
    model: NodeClassifier, data: SiteData, context: RunContext[Any]
) -> tuple[Examples, dict[str, Any]]:
    """The ⌈r n⌉ training nodes of the largest cross-entropy, fewer where there are not so many, without links.

    Args:
        model: the received one.
        data: of the client.
        context: of the round.

    Returns:
        the examples; and `core` and `nodes`, the numbers of these and of all nodes, with the share `copied`.
    """
    graph, total = data.training.graph, data.sizes["nodes"]
    with context.timed("condense"):
        train = graph.train_mask.nonzero().flatten()
        losses = functional.cross_entropy(
            model(graph.x, data.training.adjacency)[train], graph.y[train], reduction="none"
        )
        size = min(condensed_size(total, context.config.ratio), train.numel())
        # A client without training nodes gets no examples, and sits the round out.
        nodes = train[losses.topk(size).indices]
        adjacency = normalised_adjacency(graph.edge_index[:, :0], size)
    reported = {"core": size, "nodes": total, "copied": float(size > 0)}
    return Examples(graph.x[nodes], adjacency, graph.y[nodes], graph.train_mask[nodes]), reported
