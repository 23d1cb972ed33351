"""What it costs a client to condense its graph on one core."""

from __future__ import annotations

import time

import pytest
import torch

from fedtag.client.condense.condenser import condense
from fedtag.common.condensers.spec import CONDENSERS
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.labels import condensed_size

pytestmark = pytest.mark.benchmark

NODES, DIMENSION, CLASSES, RATIO = 500, 384, 7, 0.08
MOST_SECONDS = 60.0


def client_graph() -> Graph:
    """As large as a client of Cora's texts divided by five, and as densely linked."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (NODES,), generator=generator)
    pairs = torch.randint(NODES, (2, 16 * NODES), generator=generator)
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) & (pairs[0] != pairs[1])][:, : 2 * NODES]
    edges = torch.unique(torch.cat([pairs, pairs.flip(0)], 1), dim=1)
    x = torch.randn(NODES, DIMENSION, generator=generator)
    x[torch.arange(NODES), y] += 3
    x = torch.nn.functional.normalize(x, dim=1)
    part = torch.rand(NODES, generator=generator)
    return Graph(
        x,
        edges,
        torch.ones(edges.shape[1]),
        y,
        part < 0.6,
        (part >= 0.6) & (part < 0.8),
        part >= 0.8,
        CLASSES,
    )


@pytest.mark.parametrize("name", [name for name in CONDENSERS.names if not CONDENSERS.get(name).every_round])
def test_a_client_of_500_nodes_is_condensed_within_a_minute(name: str) -> None:
    graph = client_graph()
    # Patience never ends it early, so that this is the longest that it can take.
    settings = CondenserConfig(patience=10**6)
    begin = time.process_time()
    found = condense(name, graph, condensed_size(NODES, RATIO), settings, torch.Generator().manual_seed(0))
    seconds = time.process_time() - begin
    print(f"\n{name:<12}{found.num_nodes:4d} nodes, CPU s {seconds:7.2f}")  # noqa: T201
    assert seconds <= MOST_SECONDS
