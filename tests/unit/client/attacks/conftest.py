"""Small graphs whose classes are mixed enough that a model must learn some nodes by heart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from fedtag.client.attacks.population import Population, population
from fedtag.common.graph import Graph


@pytest.fixture(scope="session")
def noisy_graph() -> Callable[..., Graph]:
    """A graph of random links, mostly within classes; per class so many training and test nodes, the rest free."""

    def build(seed: int, nodes: int = 480, classes: int = 3, train: int = 100, test: int = 180) -> Graph:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, classes, nodes)
        pairs = rng.integers(0, nodes, (3 * nodes, 2))
        alike = (y[pairs[:, 0]] == y[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.3)
        pairs = np.unique(np.sort(pairs[alike & (pairs[:, 0] != pairs[:, 1])], axis=1), axis=0)
        x = rng.standard_normal((nodes, 40))
        x[np.arange(nodes), y] += 1.0
        order = rng.permutation(nodes)
        masks = []
        for chosen in (order[:train], order[train : train + test]):
            mask = torch.zeros(nodes, dtype=torch.bool)
            mask[torch.from_numpy(chosen)] = True
            masks.append(mask)
        edges = torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]).T.copy())
        return Graph(
            torch.from_numpy(x).float(),
            edges,
            torch.ones(edges.shape[1]),
            torch.from_numpy(y),
            masks[0],
            torch.zeros(nodes, dtype=torch.bool),
            masks[1],
            classes,
        )

    return build


@pytest.fixture
def people(noisy_graph: Callable[..., Graph]) -> Population:
    return population([noisy_graph(0)], ["site"], 0)
