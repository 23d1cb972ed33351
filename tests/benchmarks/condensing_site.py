"""One round's condensation of one site of a given size, in a process of its own; prints what it took as JSON.

python -m tests.benchmarks.condensing_site NODES [DEVICE [EXACT_CORE]]
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
import torch
from jaxtyping import config as jaxtyping_config
from torch.nn.functional import normalize

from fedtag.client.condense.core.of_round import choose_core
from fedtag.client.methods.dance.condensation import chosen_views, core_graph, forward
from fedtag.client.methods.dance.evidence import Texts
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.common.config import RunConfig
from fedtag.common.graph import Graph, normalised_adjacency
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from tests.benchmarks.drawn_graphs import DIMENSION, drawn_graph

CLASSES = 10


class Clock:
    """Processor seconds of the parts of the work, on a device wall seconds."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.seconds: dict[str, float] = {}
        self.last = self.now()

    def now(self) -> float:
        """Once everything that was asked of the device is done."""
        if self.device == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()

    def lap(self, name: str) -> None:
        """What passed since the lap before is of this part."""
        now = self.now()
        self.seconds[name] = now - self.last
        self.last = now


def opened(nodes: int, device: str, config: RunConfig) -> LocalGraph:
    """A drawn graph as DANCE reads it: two chunks a node, half of the nodes in training."""
    drawn = drawn_graph(nodes, classes=CLASSES)
    chunks = normalize(drawn.chunks.flatten(0, 1), dim=1).to(device)
    pooled = chunks.view(nodes, 2, DIMENSION).mean(1)
    train = torch.from_numpy(np.random.default_rng(1).random(nodes) < 0.5).to(device)
    none = torch.zeros_like(train)
    edges = drawn.edge_index.to(device)
    once = pooled.new_ones(edges.shape[1])
    graph = Graph(pooled, edges, once, drawn.y.to(device), train, none, none, CLASSES)
    texts = Texts(pooled, chunks, 2 * torch.arange(nodes + 1, device=device))
    return LocalGraph(graph, normalised_adjacency(edges, nodes), texts, pooled, config.own(DanceConfig), 0)


@torch.no_grad()
def condensed(nodes: int, device: str = "cpu", exact_core: int | None = None) -> dict[str, object]:
    """What the parts of a round's condensation take, by the model that the seed gives."""
    torch.set_num_threads(1)
    # The policy `top` clusters, which the default does only where training nodes are few.
    flat = {"method": "dance", "dance.core-policy": "top", "dance.confidence": 0.0}
    config = RunConfig.from_flat(flat | ({} if exact_core is None else {"dance.exact-core": exact_core}))
    local = opened(nodes, device, config)
    model = initial_dance_model(config, DIMENSION, CLASSES).to(device).eval()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clock = Clock(device)
    sets = local.second_neighbours
    clock.lap("two-hop sets, once a run")
    _ = local.bypass
    clock.lap("propagated features, once a run")
    passed = forward(model, local)
    clock.lap("model on the graph")
    local.candidates(torch.arange(nodes, device=device), passed.difficulty)
    clock.lap("candidates of every node")
    graph, settings = local.graph, local.config
    core = choose_core(
        passed.g,
        passed.logits,
        torch.where(graph.train_mask, graph.y, -1),
        settings,
        num_classes=CLASSES,
        ratio=config.ratio,
        generator=np.random.default_rng(0),
        rotation=0,
        step=0,
        pace=1.0,
    )
    clock.lap("choice of the core")
    evidence, seen, _ = chosen_views(model, local, passed, core.nodes)
    x = model.fuse(seen)
    clock.lap("evidence of the core")
    adjacency, made = core_graph(settings, local, evidence, x)
    clock.lap("topology")
    return {
        "nodes": nodes,
        "edges": graph.edge_index.shape[1] // 2,
        "core": core.nodes.numel(),
        "two-hop entries": sets.index.numel(),
        "links": adjacency.edge_index.shape[1],
        "approximate": made["approximate"],
        "seconds": clock.seconds,
        "MB before": before / 1024,
        "MB at most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
        "device MB at most": 0.0 if device == "cpu" else torch.cuda.max_memory_allocated() / 2**20,
    }


if __name__ == "__main__":
    jaxtyping_config.update("jaxtyping_disable", True)
    size, *more = sys.argv[1:]
    told = condensed(int(size), more[0] if more else "cpu", int(more[1]) if len(more) > 1 else None)
    print(json.dumps(told))  # noqa: T201
