"""The validation nodes of a client in two halves: on A the architecture is searched, B judges the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from fedtag.client.train.statistics import LEAST_VALIDATION
from fedtag.common.graph import Graph


@dataclass(frozen=True)
class Halves:
    """Disjoint masks over the nodes, together the validation nodes.

    Args:
        searched: A; empty with fewer than 4 validation nodes, with which no architecture is searched.
        judged: B, by one larger than A where the number is odd.
    """

    searched: Bool[Tensor, " nodes"]
    judged: Bool[Tensor, " nodes"]


def halves(graph: Graph, generator: torch.Generator) -> Halves:
    """Both halves, drawn at random.

    Args:
        graph: of the client.
        generator: the same in every round, so that B never has a part in the search.
    """
    rows = graph.val_mask.cpu().nonzero().flatten()
    searched = torch.zeros(graph.num_nodes, dtype=torch.bool)
    if len(rows) >= LEAST_VALIDATION:
        order = torch.randperm(len(rows), generator=generator)
        searched[rows[order[: len(rows) // 2]]] = True
    searched = searched.to(graph.val_mask.device)
    return Halves(searched, graph.val_mask & ~searched)
