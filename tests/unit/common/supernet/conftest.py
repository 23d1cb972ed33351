"""Small random graphs in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fedtag.common.graph import Adjacency, normalised_adjacency

Make = Callable[..., Adjacency]


@pytest.fixture
def make_adjacency() -> Make:
    """An undirected graph of `nodes` nodes with random weights; node 0 has no neighbour."""

    def make(nodes: int = 7, seed: int = 0) -> Adjacency:
        generator = torch.Generator().manual_seed(seed)
        linked = (torch.rand(nodes, nodes, generator=generator) < 0.4).triu(1)
        linked[0] = False
        pairs = linked.nonzero().T
        weight = torch.rand(pairs.shape[1], generator=generator) + 0.5
        adjacency = normalised_adjacency(
            torch.cat([pairs, pairs.flip(0)], dim=1), nodes, torch.cat([weight, weight])
        )
        return Adjacency(adjacency.edge_index, adjacency.weight.double(), nodes)

    return make
