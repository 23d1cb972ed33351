from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig

CLASSES = 3


def class_graph(nodes: int = 60, seed: int = 0) -> Graph:
    """Classes that features and links tell apart; two thirds training nodes, the rest validation and test."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % CLASSES
    pairs = torch.randint(nodes, (2, 6 * nodes), generator=generator)
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) & (pairs[0] != pairs[1])]
    edges = torch.unique(torch.cat([pairs, pairs.flip(0)], 1), dim=1)
    x = 0.5 * torch.randn(nodes, 6, generator=generator)
    x[torch.arange(nodes), y] += 1
    third = torch.arange(nodes) // CLASSES % 6
    return Graph(x, edges, torch.ones(edges.shape[1]), y, third < 4, third == 4, third == 5, CLASSES)


def relabelled(graph: Graph, order: torch.Tensor) -> Graph:
    """The same graph with node `order[i]` in place i."""
    place = torch.empty_like(order).scatter(0, order, torch.arange(order.numel()))
    return replace(
        graph,
        x=graph.x[order],
        y=graph.y[order],
        edge_index=place[graph.edge_index],
        train_mask=graph.train_mask[order],
        val_mask=graph.val_mask[order],
        test_mask=graph.test_mask[order],
    )


@pytest.fixture(scope="session")
def graph_of() -> Callable[..., Graph]:
    """Builds a graph of three classes: graph_of(nodes, seed)."""
    return class_graph


@pytest.fixture(scope="session")
def reordered() -> Callable[[Graph, torch.Tensor], Graph]:
    """Puts the nodes of a graph into another order."""
    return relabelled


@pytest.fixture(scope="session")
def quick() -> CondenserConfig:
    """Settings with which a tiny graph takes a fraction of a second."""
    return CondenserConfig(
        outer_loops=6,
        inner_loops=5,
        hidden=8,
        feature_steps=3,
        adjacency_steps=2,
        validate_every=2,
        validation_steps=40,
        experts=2,
        expert_steps=40,
        expert_span=5,
    )
