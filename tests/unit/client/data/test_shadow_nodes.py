from __future__ import annotations

import torch

from fedtag.client.data.shadow_nodes import outside_splits, shadow_half
from fedtag.common.graph import Graph


def split_graph(nodes: int = 41) -> Graph:
    part = torch.arange(nodes) % 5
    edges = torch.zeros(2, 0, dtype=torch.long)
    return Graph(torch.zeros(nodes, 2), edges, torch.zeros(0), part % 3, part == 0, part == 1, part == 2, 3)


def test_shadow_nodes_are_half_of_those_outside_every_split() -> None:
    graph = split_graph()
    outside = outside_splits(graph)
    assert not (outside & (graph.train_mask | graph.test_mask)).any()
    half = shadow_half(outside, 7, "site")
    assert int(half.sum()) == int(outside.sum()) // 2
    assert not (half & ~outside).any()
    assert torch.equal(half, shadow_half(outside, 7, "site"))
    assert not torch.equal(half, shadow_half(outside, 8, "site"))
    assert not torch.equal(half, shadow_half(outside, 7, "other"))
