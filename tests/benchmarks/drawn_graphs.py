"""Graphs of any size with a given law of degrees and a given homophily, drawn by seed without loops over nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

DIMENSION = 64
NOISE = 1.0
"""How far vectors of a class are spread about its centre, whose entries are of order 1."""


@dataclass(frozen=True)
class DrawnGraph:
    """Undirected edges, both directions of each, without loops and doubles; a class a node; vectors of two chunks."""

    edge_index: Tensor
    y: Tensor
    chunks: Tensor


def drawn_graph(
    nodes: int,
    edges_a_node: float = 10.0,
    exponent: float = 2.5,
    homophily: float = 0.7,
    classes: int = 10,
    seed: int = 0,
) -> DrawnGraph:
    """A degree-corrected block model (Karrer and Newman, 2011) whose expected degrees follow a power law.

    Args:
        nodes: n.
        edges_a_node: edges drawn for each node; loops and doubles among them, a few in a hundred, are dropped.
        exponent: γ of P(degree) ~ degree^-γ, > 2.
        homophily: share of edges that are drawn within a class; of the others some are, by chance.
        classes: of nodes, about as large as each other.
        seed: of everything.
    """
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(classes, size=nodes))
    total = np.concatenate([np.zeros(1), np.cumsum(rng.pareto(exponent - 1, nodes) + 1)])
    source = _by_weight(total, rng.random(int(nodes * edges_a_node)) * total[-1])
    bounds = total[np.searchsorted(y, np.arange(classes + 1))]
    within = rng.random(source.size) < homophily
    low = np.where(within, bounds[y[source]], 0.0)
    high = np.where(within, bounds[y[source] + 1], total[-1])
    target = _by_weight(total, low + rng.random(source.size) * (high - low))
    least, most = np.minimum(source, target), np.maximum(source, target)
    once = np.unique(least[least != most] * nodes + most[least != most])
    # Ids say nothing about classes.
    place = rng.permutation(nodes)
    edges = torch.from_numpy(place[np.stack([once // nodes, once % nodes])])
    shuffled = torch.from_numpy(y[np.argsort(place)])
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, 1, DIMENSION, generator=generator)
    chunks = centres[shuffled] + NOISE * torch.randn(nodes, 2, DIMENSION, generator=generator)
    return DrawnGraph(torch.cat([edges, edges.flip(0)], dim=1), shuffled, chunks)


def _by_weight(total: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Whose stretch of the line a place is in; `total` are the ends of all stretches, from 0."""
    return np.minimum(np.searchsorted(total, place, side="right") - 1, total.size - 2)
