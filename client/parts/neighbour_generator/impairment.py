"""A graph of which some nodes are hidden, so that what their neighbours lack is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fedtag.common.graph import Adjacency, Graph, normalised_adjacency
from fedtag.common.numerics.ragged import Ragged


@dataclass(frozen=True, eq=False)
class Impaired:
    """What is left of a graph, and what was taken from it.

    Args:
        x: features of the visible nodes.
        adjacency: propagation between them.
        lacking: rows of `hidden_x` of the hidden nodes from which each visible one had an edge.
        hidden_x: features of the hidden nodes; targets, never inputs.
    """

    x: Float[Tensor, "visible dim"]
    adjacency: Adjacency
    lacking: Ragged
    hidden_x: Float[Tensor, "hidden dim"]


def impaired(
    graph: Graph, share: float, eligible: Bool[Tensor, " nodes"], generator: torch.Generator
) -> Impaired:
    """Hide a share of the nodes, drawn at random, with all their edges (Zhang et al., 2021, section 4.1).

    Args:
        graph: as training may see it.
        share: in [0, 1); rounded down, so that a node is left wherever there is one.
        eligible: nodes that may be seen at all, as visible or hidden ones.
        generator: on the CPU, so that the draw is the same on all devices.
    """
    rows = eligible.nonzero().flatten()
    drawn = torch.randperm(len(rows), generator=generator)[: math.floor(share * len(rows))]
    hidden = torch.zeros_like(eligible)
    hidden[rows[drawn.to(rows.device)]] = True
    visible = eligible & ~hidden
    # Of a visible node its place among these, of a hidden one its place among those.
    place = torch.where(hidden, hidden.cumsum(0), visible.cumsum(0)) - 1
    count = int(visible.sum())
    source, target = graph.edge_index
    kept, cut = visible[source] & visible[target], hidden[source] & visible[target]
    return Impaired(
        graph.x[visible],
        normalised_adjacency(place[graph.edge_index[:, kept]], count, graph.edge_weight[kept]),
        Ragged.from_pairs(place[target[cut]], place[source[cut]], count),
        graph.x[hidden],
    )
