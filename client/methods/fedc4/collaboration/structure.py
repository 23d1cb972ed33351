"""How a small graph compares with the graph from which it was condensed (FedC4, Table 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

DEGREE_BINS = 16
LARGEST_RELATIVE_DEGREE = 4.0
_SMOOTHING = 1e-3


@dataclass(frozen=True)
class Structure:
    """Of one graph.

    Args:
        nodes: number of nodes.
        density: share of the n (n - 1) / 2 possible links, in [0, 1].
        homophily: share of links between nodes of one label, in [0, 1]; None where no link joins labelled nodes.
        degree_divergence: KL of the reference's histogram of degree over mean degree to this one's, in nats; None
            where either graph has no link.
    """

    nodes: int
    density: float
    homophily: float | None
    degree_divergence: float | None


def structure(
    edge_index: Int[Tensor, "2 edges"],
    y: Int[Tensor, " nodes"],
    reference: Float[Tensor, " bins"] | None = None,
) -> Structure:
    """The structure of an undirected graph.

    Args:
        edge_index: both directions of every link, without self-loops.
        y: labels; -1 where there is none, whose links say nothing of homophily.
        reference: the histogram with which degrees are compared, of the original graph.
    """
    count = y.numel()
    source, target = edge_index
    known = (y[source] >= 0) & (y[target] >= 0)
    same = (y[source] == y[target]) & known
    own = degree_histogram(edge_index, count)
    divergence = None if reference is None or own is None else kullback_leibler(reference, own)
    return Structure(
        count,
        edge_index.shape[1] / max(count * (count - 1), 1),
        float(same.sum() / known.sum()) if bool(known.any()) else None,
        divergence,
    )


def degree_histogram(edge_index: Int[Tensor, "2 edges"], num_nodes: int) -> Float[Tensor, " bins"] | None:
    """Shares of nodes by degree over mean degree, the last bin for all beyond 4; None without any link.

    Degrees are taken over their mean, because graphs of different sizes have different ones.
    """
    if edge_index.shape[1] == 0:
        return None
    degree = torch.bincount(edge_index[1], minlength=num_nodes).double()
    relative = (degree / degree.mean()).clamp_max(LARGEST_RELATIVE_DEGREE)
    return torch.histc(relative, DEGREE_BINS, 0.0, LARGEST_RELATIVE_DEGREE) / num_nodes


def kullback_leibler(reference: Float[Tensor, " bins"], other: Float[Tensor, " bins"]) -> float:
    """Σ p log(p / q) in nats, both smoothed so that an empty bin costs a finite amount."""
    p, q = ((one + _SMOOTHING) / (one + _SMOOTHING).sum() for one in (reference, other))
    return float((p * (p / q).log()).sum())
