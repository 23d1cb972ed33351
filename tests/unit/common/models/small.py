"""A small weighted graph, also as a dense matrix, and a backbone of each name for it."""

from __future__ import annotations

from typing import Any

import torch

from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models import assembly
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.randomness import seeded

NODES, INPUTS, HIDDEN, CLASSES = 7, 5, 4, 3


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def edges(nodes: int = NODES) -> torch.Tensor:
    """A ring with a chord, both directions."""
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    pairs = torch.cat([ring, torch.tensor([[0], [3]])], dim=1)
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def weights() -> torch.Tensor:
    """Of `edges`, not the same in both directions."""
    return torch.rand(2 * (NODES + 1), generator=generator(1)) + 0.5


def adjacency() -> Adjacency:
    return normalised_adjacency(edges(), NODES, weights())


def path() -> Adjacency:
    """0 - 1."""
    return normalised_adjacency(torch.tensor([[0, 1], [1, 0]]), 2)


def star(leaves: int) -> Adjacency:
    """Around node 0."""
    outer = torch.arange(1, leaves + 1)
    spokes = torch.stack([torch.zeros_like(outer), outer])
    return normalised_adjacency(torch.cat([spokes, spokes.flip(0)], dim=1), leaves + 1)


def features(nodes: int = NODES) -> torch.Tensor:
    return torch.randn(nodes, INPUTS, generator=generator(2))


def backbone(
    family: str, layers: int = 2, rate: float = 0.5, skip: bool = False, seed: int = 3, **own: Any
) -> NodeClassifier:
    """With initial values of a seed.

    Args:
        family: its name.
        layers, rate, skip: of the model.
        seed: of its values.
        own: settings of its own.
    """
    flat = {"model.backbone": family, "model.hidden": HIDDEN, "model.layers": layers, "model.dropout": rate}
    named = {f"{family}.{name}": value for name, value in own.items()}
    config = RunConfig.from_flat({"method": "fedavg", **flat, **named})
    table = config.tables.get(family)
    return seeded(lambda: assembly.backbone(config.model, INPUTS, CLASSES, table, skip), seed)


def dense(matrix: Adjacency) -> torch.Tensor:
    """Target by source."""
    out = torch.zeros(matrix.num_nodes, matrix.num_nodes)
    out[matrix.edge_index[1], matrix.edge_index[0]] = matrix.weight
    return out


def links(matrix: Adjacency) -> torch.Tensor:
    """1 where a link is, target by source, without self-loops."""
    return (dense(matrix) > 0).float().fill_diagonal_(0)
