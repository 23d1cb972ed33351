"""What a refresh of DANCE costs for each candidate and each edge, on a small and on a large graph."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeVar

import pytest
import torch

from fedtag.client.condense.core.of_round import core_of_round
from fedtag.client.condense.core.prior import evidence_prior
from fedtag.client.methods.dance.condensation import core_graph, forward, views
from fedtag.client.methods.dance.evidence import select_evidence
from fedtag.client.methods.dance.local_graph import local_graph
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.common.config import RunConfig
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from tests.exchanges import context_of

pytestmark = pytest.mark.benchmark

T = TypeVar("T")

RATIO = 0.08
REPEATS = 5
MOST_TIMES = 2.0


@dataclass
class Refresh:
    """CPU seconds of each part of one refresh, and what it worked on.

    `candidates` are the neighbours of the core at one and two hops and the chunks of those that were kept;
    `edges` the entries of the propagation matrix. `once` is what a site does at its first refresh only.
    """

    nodes: int
    edges: int
    core: int = 0
    candidates: int = 0
    once: float = 0.0
    peak_mb: int = 0
    parts: dict[str, float] = field(default_factory=dict)

    def time(self, part: str, work: Callable[[], T]) -> T:
        """The result of the work, done several times; the median time is noted."""
        seconds = []
        for _ in range(REPEATS):
            start = time.process_time()
            result = work()
            seconds.append(time.process_time() - start)
        self.parts[part] = median(seconds)
        return result

    @property
    def whole(self) -> float:
        return sum(self.parts.values())


def refresh(source: Path, out: Path) -> Refresh:
    """One client with the whole graph: core, candidates, evidence, topology."""
    flat = {
        "method": "dance",
        "device": "cpu",
        "clients": 1,
        "data.source": str(source),
        "data.split": "0.6,0.2,0.2",
        "out": str(out),
        "ratio": RATIO,
    }
    config = RunConfig.from_flat(flat)
    (site,) = simulate_sites(config, out / "sites")
    session = SiteRun(site, config)
    graph = session.data.graph
    local = local_graph(session.data, context_of(session, 4))
    told = Refresh(graph.num_nodes, local.adjacency.edge_index.shape[1])
    start = time.process_time()
    assert local.bypass.shape[0] == local.second_neighbours.num_rows == local.neighbours.num_rows
    told.once = time.process_time() - start

    model = initial_dance_model(config, graph.x.shape[1], graph.num_classes)
    passed = told.time("forward", lambda: forward(model, local))
    context, own = context_of(session, 4), config.own(DanceConfig)
    core = told.time("core", lambda: core_of_round(session.data, context, own, passed.g, passed.logits)).nodes
    hops = told.time("neighbours", lambda: local.candidates(core, passed.difficulty))
    evidence = told.time(
        "evidence",
        lambda: select_evidence(
            model, passed.g, local.texts, core, hops, local.budgets, local.config.chunk_budget
        ),
    )
    with torch.no_grad():
        x = told.time("vectors", lambda: model.fuse(views(model, local, passed.g, evidence)[0]))
    prior = told.time("prior", lambda: evidence_prior(evidence.selected_chunks, local.texts.chunks))
    adjacency, _ = told.time("topology", lambda: core_graph(local.config, local, evidence, x))
    assert prior.num_rows == adjacency.num_nodes == core.numel()

    told.core = core.numel()
    near = (local.neighbours.width + local.second_neighbours.width)[core]
    told.candidates = int(near.sum()) + evidence.chunks.index.numel()
    told.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return told


def test_a_refresh_costs_the_same_for_each_candidate_and_edge(
    unencoded: Callable[[str], Path], tmp_path: Path
) -> None:
    small = refresh(unencoded("cora_text"), tmp_path / "small")
    large = refresh(unencoded("arxiv2023_titles"), tmp_path / "large")
    lines = [
        f"one client, ratio {RATIO}, CPU time of one refresh",
        f"  {'':<26}{'Cora':>12}{'arXiv titles':>14}{'ratio':>8}",
        *(
            f"  {what:<26}{getattr(small, what):12d}{getattr(large, what):14d}"
            for what in ("nodes", "edges", "core", "candidates")
        ),
        f"  {'peak RSS so far, MiB':<26}{small.peak_mb:12d}{large.peak_mb:14d}",
        f"  {'once a session, s':<26}{small.once:12.3f}{large.once:14.3f}",
    ]
    for unit in ("candidates", "edges"):
        counts = getattr(small, unit), getattr(large, unit)
        for part in (*small.parts, "whole"):
            cost = [
                1e6 * told.parts.get(part, told.whole) / count
                for told, count in zip((small, large), counts, strict=True)
            ]
            name = f"{part}, µs / {unit[:-1]}"
            lines.append(f"  {name:<26}{cost[0]:12.3f}{cost[1]:14.3f}{cost[1] / cost[0]:8.2f}")
    print("\n" + "\n".join(lines))  # noqa: T201
    assert large.whole / large.candidates <= MOST_TIMES * small.whole / small.candidates
    assert large.whole / large.edges <= MOST_TIMES * small.whole / small.edges
