"""Graphs for the tests of parts: a hub, isolated nodes, weights, and a model of each kind."""

from __future__ import annotations

import torch

from fedtag.client.train.examples import Examples
from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.spec import BACKBONES as BACKBONE_SPECS
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.network import discrete_network
from fedtag.common.models.supernet.supernet import initial_supernet

WIDTH, CLASSES = 5, 3
BACKBONES = BACKBONE_SPECS.names
MODELS = (*BACKBONES, "skip", "supernet", "discrete network")


def graph(nodes: int = 60, links: int = 100, seed: int = 0) -> Adjacency:
    """Random weighted links among the first nine tenths of the nodes, of which node 0 has many."""
    generator = torch.Generator().manual_seed(seed)
    inside = max(1, 9 * nodes // 10)
    pairs = torch.randint(0, inside, (2, links), generator=generator)
    pairs[0, : links // 4] = 0
    pairs = pairs[:, pairs[0] != pairs[1]].sort(0).values
    pairs = torch.unique(pairs, dim=1)
    weight = torch.rand(pairs.shape[1], generator=generator) + 0.5
    both = torch.cat([pairs, pairs.flip(0)], dim=1)
    return normalised_adjacency(both, nodes, torch.cat([weight, weight]))


def examples(adjacency: Adjacency, seed: int = 0) -> Examples:
    """Features and labels, about half of which are learned."""
    generator, nodes = torch.Generator().manual_seed(seed), adjacency.num_nodes
    x = torch.randn(nodes, WIDTH, generator=generator)
    y = torch.randint(0, CLASSES, (nodes,), generator=generator)
    return Examples(x, adjacency, y, torch.rand(nodes, generator=generator) < 0.5)


def model(kind: str, layers: int = 2) -> NodeClassifier:
    """One of `MODELS` with initial values."""
    if kind in BACKBONES:
        flat = {"method": "fedavg", "model.backbone": kind, "model.layers": layers, "model.hidden": 6}
        return initial_backbone(RunConfig.from_flat(flat), WIDTH, CLASSES)
    config = RunConfig.from_flat({"method": "fedavg", "model.hidden": 6, "model.layers": layers})
    if kind == "skip":
        from fedtag.common.models.assembly import backbone

        torch.manual_seed(0)
        return backbone(config.model, WIDTH, CLASSES, None, skip=True)
    supernet = initial_supernet(config.model, layers, WIDTH, CLASSES, 0)
    if kind == "supernet":
        return supernet
    state = {name: value.detach() for name, value in supernet.state_dict().items()}
    return discrete_network(discretised(state, 0.0), state, 0.0)
