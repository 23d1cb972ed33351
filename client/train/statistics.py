"""What distribution-aware weights need to know of a client (DA-DFGAS, Eq. 5-8): three small things."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.common.graph import Graph
from fedtag.common.numerics.scores import tally

KEY_DIM = 32
MOST_SAMPLED = 512
LEAST_VALIDATION = 4
"""Validation nodes below which an accuracy says nothing of a model."""


def class_distribution(logits: Float[Tensor, "nodes classes"]) -> Float[Tensor, " classes"]:
    """P(c): the mean predicted probability of each class over the nodes, of which there is at least one."""
    return logits.double().softmax(1).mean(0)


def validation_accuracy(
    logits: Float[Tensor, "nodes classes"], graph: Graph, judges: Bool[Tensor, " nodes"] | None = None
) -> float | None:
    """Share of validation nodes that are predicted right; None with fewer than 4 of them.

    Args:
        logits: of every node.
        graph: whose validation nodes are meant.
        judges: those validation nodes whose predictions count, where they are not all.
    """
    if int(graph.val_mask.sum()) < LEAST_VALIDATION:
        return None
    return tally(logits, graph.y, graph.val_mask if judges is None else judges).accuracy


def projections(
    dim: int, generator: torch.Generator
) -> tuple[Float[Tensor, "dim key"], Float[Tensor, "dim key"], Float[Tensor, "dim dim"]]:
    """W_Q, W_K and W_V of Eq. 5, normal with deviation 1/√dim, so that a unit row keeps its length in V.

    Args:
        dim: of the features.
        generator: the same at all clients, without which their norms could not be compared.
    """
    scale = 1 / math.sqrt(dim)
    query, key, value = (
        torch.randn(dim, width, generator=generator) * scale for width in (KEY_DIM, KEY_DIM, dim)
    )
    return query, key, value


def attention_norm(
    x: Float[Tensor, "nodes dim"],
    query: Float[Tensor, "dim key"],
    key: Float[Tensor, "dim key"],
    value: Float[Tensor, "dim dim"],
) -> Float[Tensor, ""]:
    """‖softmax(QK^T / √d_k) V‖_F / √nodes (Eq. 6 without the accuracy), of features scaled to unit rows.

    The norm grows with the square root of the number of nodes, hence the division. No row of the product is
    longer than the largest singular value of `value`.
    """
    unit = functional.normalize(x, dim=1)
    attention = ((unit @ query) @ (unit @ key).T / math.sqrt(query.shape[1])).softmax(1)
    return ((attention @ unit) @ value).norm() / math.sqrt(x.shape[0])


def sampled_rows(count: int, generator: torch.Generator) -> Int[Tensor, " rows"]:
    """At most 512 of `count` rows, without repetition, in ascending order."""
    return torch.randperm(count, generator=generator)[:MOST_SAMPLED].sort().values


@torch.no_grad()
def client_statistics(
    data: SiteData,
    context: RunContext[Any],
    logits: Float[Tensor, "nodes classes"],
    judges: Bool[Tensor, " nodes"] | None = None,
) -> dict[str, Any]:
    """The client's statistics, as JSON.

    Nodes behind the site's own take no part, nor do test nodes where training is inductive, since the weights act upon
    training.

    Args:
        data: whose training graph has at least one node that is not a test node.
        context: whose round decides the sample of nodes.
        logits: of the locally trained model, on the training graph.
        judges: validation nodes of which the accuracy is; None: all.

    Returns:
        `distribution` (a probability for each class), `attention` (the norm, without the accuracy) and
        `accuracy` (a fraction of the validation nodes, or None).
    """
    graph = data.training.graph
    counted = torch.arange(graph.num_nodes, device=graph.x.device) < data.sizes["nodes"]
    if context.config.train.inductive:
        counted &= ~graph.test_mask
    x, seen = graph.x[counted], logits[counted]
    sample = context.generator(context.round, data.site.name, "attention sample")
    rows = sampled_rows(x.shape[0], sample)
    maps = projections(x.shape[1], context.generator("attention projections"))
    norm = attention_norm(x[rows.to(x.device)], *(matrix.to(x.device) for matrix in maps))
    return {
        "distribution": class_distribution(seen).tolist(),
        "attention": float(norm),
        "accuracy": validation_accuracy(logits, graph, judges),
    }
