from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fedtag.common.graph import Graph


@pytest.fixture
def make_graph() -> Callable[..., Graph]:
    """A random undirected graph with labels, of which each third node trains; edges have weights."""

    def make(nodes: int = 12, edges: int = 20, dim: int = 4, seed: int = 0) -> Graph:
        draw = torch.Generator().manual_seed(seed)
        pairs = torch.randint(0, max(nodes, 1), (2, edges), generator=draw)
        pairs = torch.unique(pairs.sort(0).values[:, pairs[0] != pairs[1]], dim=1)
        weight = torch.rand(pairs.shape[1], generator=draw) + 0.5
        rows = torch.arange(nodes)
        return Graph(
            x=torch.randn(nodes, dim, generator=draw),
            edge_index=torch.cat([pairs, pairs.flip(0)], 1),
            edge_weight=torch.cat([weight, weight]),
            y=rows % 3,
            train_mask=rows % 3 == 0,
            val_mask=rows % 3 == 1,
            test_mask=rows % 3 == 2,
            num_classes=3,
        )

    return make
