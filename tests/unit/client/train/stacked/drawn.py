"""Clients of unequal sizes, one without links, one without labels, for training at once."""

from __future__ import annotations

from typing import Any

import torch

from fedtag.client.train.examples import Examples
from fedtag.client.train.stacked.ahead import Ahead, Planned
from fedtag.client.train.stacked.rounds import StackedRounds
from fedtag.client.train.stacked.shares import Share, Together
from fedtag.common.config import RunConfig
from fedtag.common.graph import Graph
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import parameters_of

INPUTS, CLASSES = 6, 3
SIZES = {"a": (12, 30), "b": (7, 8), "c": (5, 0), "d": (1, 0), "e": (20, 60)}
"""Nodes and drawn pairs of each client."""


def configured(**settings: Any) -> RunConfig:
    """Settings; in names two underscores stand for a point."""
    flat = {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    return RunConfig.from_flat({"method": "fedavg", "model.hidden": 5, **flat})


def graph_of(nodes: int, pairs: int, seed: int, labelled: bool = True) -> Graph:
    """A drawn graph, a third of whose nodes is in each split."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, nodes, (2, pairs), generator=generator)
    edges = edges[:, edges[0] != edges[1]]
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    split = torch.arange(nodes) % 3
    return Graph(
        torch.randn(nodes, INPUTS, generator=generator),
        edges,
        torch.ones(edges.shape[1]),
        torch.randint(0, CLASSES, (nodes,), generator=generator),
        (split == 0) & labelled,
        split == 1,
        split == 2,
        CLASSES,
    )


def shares(config: RunConfig, device: str = "cpu", names: str = "abcde") -> dict[str, Share]:
    """What clients bring; the fourth one has no label to learn."""
    model = initial_backbone(config, INPUTS, CLASSES).to(device)
    found = {}
    for name in names:
        seed = "abcde".index(name)
        graph = graph_of(*SIZES[name], seed, labelled=name != "d").to(device)
        adjacency = graph.adjacency()
        examples = Examples.of_graph(graph, adjacency) if bool(graph.train_mask.any()) else None
        found[name] = Share(model, parameters_of(model), examples, graph, adjacency, graph.val_mask)
    return found


def ahead_of(
    config: RunConfig,
    device: str = "cpu",
    captured: bool = False,
    names: str = "abcde",
    averaged: bool = True,
) -> Ahead:
    """Rounds of such clients, from the initial model."""
    brought = shares(config, device, names)
    first = brought[names[0]]
    rounds = StackedRounds(
        Together.of(brought), first.model, config.train, config.seed, averaged, 3.0, averaged, "graph"
    )
    own = {name: value.expand(len(names), *value.shape) for name, value in first.start.items()}
    return Ahead(rounds, first.start if averaged else own, captured)


def plans(rounds: int, names: str = "abcde", first: int = 1) -> list[Planned]:
    """All clients that can train do, and weigh the same."""
    trains = [name != "d" for name in names]
    weights = [one / sum(trains) for one in trains]
    return [Planned(number, 0.01, trains, weights, number > 1) for number in range(first, first + rounds)]
