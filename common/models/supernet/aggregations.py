"""Neighbourhood aggregations, without parameters.

A node's neighbourhood are the entries of the adjacency with the node as their target. The node itself is one of
them, so that an isolated node keeps its features.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from fedtag.common.graph import Adjacency
from fedtag.common.models.supernet.space import IDENTITY


def aggregate(kind: str, x: Float[Tensor, "nodes dim"], adjacency: Adjacency) -> Float[Tensor, "nodes dim"]:
    """One aggregation over every node's neighbourhood.

    - `identity`: x.
    - `sum`: Σ_j a_ij x_j with the entries of the normalised adjacency, as in a graph convolution. Plain sums
      would grow with the degree, and a condensed graph says with its weights how much a neighbour counts.
    - `mean`, `max`: over the neighbourhood by feature, every neighbour alike.

    Args:
        kind: one of the above.
        x: node features.
        adjacency: with self-loops.
    """
    if kind == IDENTITY:
        return x
    if kind == "sum":
        return adjacency.propagate(x)
    return adjacency.reduce(x, kind)
