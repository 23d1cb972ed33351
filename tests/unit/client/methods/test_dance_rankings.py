from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedtag.client.evidence.faithfulness import DENSE, EVIDENCE, RANDOM, SELECTED
from fedtag.client.methods.dance.condensation import chosen_views, forward
from fedtag.client.methods.dance.evidence import Texts
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.rankings import Rankings, rankings
from fedtag.common.config import RunConfig
from fedtag.common.graph import Graph
from fedtag.common.methods.dance.model import DanceModel, initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig

NODES, DIM = 14, 6


@pytest.fixture
def local() -> LocalGraph:
    generator = torch.Generator().manual_seed(3)
    pairs = torch.randint(0, NODES, (18, 2), generator=generator)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    edges = torch.unique(torch.cat([pairs, pairs.flip(1)]), dim=0).T
    widths = torch.randint(0, 4, (NODES,), generator=generator)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), widths.cumsum(0)])
    chunks = torch.nn.functional.normalize(torch.randn(int(ptr[-1]), DIM, generator=generator), dim=1)
    x = torch.randn(NODES, DIM, generator=generator)
    mask = torch.zeros(NODES, dtype=torch.bool)
    graph = Graph(
        x, edges, torch.ones(edges.shape[1]), torch.zeros(NODES, dtype=torch.int64), mask, mask, mask, 3
    )
    config = RunConfig.from_flat({"method": "dance"}).own(DanceConfig)
    return LocalGraph(graph, graph.adjacency(), Texts(x, chunks, ptr), x, config, seed=0)


@pytest.fixture
def model() -> DanceModel:
    built = initial_dance_model(RunConfig.from_flat({"method": "dance", "model.hidden": 5}), DIM, 3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return built


def ranked(model: DanceModel, local: LocalGraph, rows: list[int], seed: int = 0) -> Rankings:
    passed = forward(model, local)
    evidence, _, found = chosen_views(model, local, passed, torch.tensor(rows))
    tokens = torch.arange(1, local.texts.chunks.shape[0] + 1)
    with torch.no_grad():
        return rankings(model, local, passed.g, evidence, found, tokens, seed, "site")


def test_orders_against_loops_over_targets(model: DanceModel, local: LocalGraph) -> None:
    rows = list(range(NODES))
    found = ranked(model, local, rows)
    passed = forward(model, local)
    evidence, _, vectors = chosen_views(model, local, passed, torch.tensor(rows))
    ptr, near = local.texts.ptr.tolist(), local.neighbours
    with torch.no_grad():
        queries, keys = model.neighbour_queries(passed.g), model.neighbour_keys(local.texts.pooled)
        asks = model.chunk_queries(passed.g)
        for row in rows:
            hops = [hop.index[hop.ptr[row] : hop.ptr[row + 1]].tolist() for hop in evidence.hops]
            there = [bool(hop) for hop in hops]
            mixture = torch.where(torch.tensor(there), model.hop_logits, -torch.inf).softmax(0)
            share = {}
            for hop, gamma in zip(hops, mixture.tolist(), strict=True):
                scores = [float(queries[row] @ keys[node]) / math.sqrt(queries.shape[1]) for node in hop]
                total = sum(math.exp(score) for score in scores)
                share |= {node: gamma * math.exp(s) / total for node, s in zip(hop, scores, strict=True)}
            chunks = [chunk for node in sorted(share) for chunk in range(ptr[node], ptr[node + 1])]
            weight = {
                chunk: share[node] * math.exp(float(asks[row] @ local.texts.chunks[chunk]) / math.sqrt(DIM))
                for node in share
                for chunk in range(ptr[node], ptr[node + 1])
            }
            size = len(found.orders[EVIDENCE][row])
            expected = sorted(chunks, key=lambda chunk: -weight[chunk])[:size]
            assert list(found.orders[DENSE][row]) == expected
            own = evidence.chunks.ptr[row], evidence.chunks.ptr[row + 1]
            pairs = zip(
                vectors.chunk_weights[own[0] : own[1]].tolist(),
                evidence.chunks.index[own[0] : own[1]].tolist(),
                strict=True,
            )
            strongest = sorted(((-w, chunk) for w, chunk in pairs if w > 0))
            assert list(found.orders[EVIDENCE][row]) == [chunk for _, chunk in strongest]
            assert len(set(found.orders[RANDOM][row])) == len(set(found.orders[SELECTED][row])) == size
            assert set(found.orders[RANDOM][row]) <= set(chunks)
            assert set(found.orders[SELECTED][row]) <= set(evidence.chunks.index[own[0] : own[1]].tolist())
            assert found.sizes["candidate_chunks"][row] == len(chunks)
            assert found.sizes["selected_tokens"][row] == sum(c + 1 for c in found.orders[EVIDENCE][row])
            first = set(near.index[near.ptr[row] : near.ptr[row + 1]].tolist())
            second = {n for m in first for n in near.index[near.ptr[m] : near.ptr[m + 1]].tolist()}
            assert set(found.neighbourhoods[row]) == {row} | first | second


def test_draws_depend_on_seed_and_node_only(model: DanceModel, local: LocalGraph) -> None:
    together, alone = ranked(model, local, [2, 5, 9]), ranked(model, local, [9])
    for name in (RANDOM, SELECTED):
        assert together.orders[name][2] == alone.orders[name][0]
    rows = list(range(NODES))
    assert ranked(model, local, rows).orders[RANDOM] != ranked(model, local, rows, seed=1).orders[RANDOM]


def test_the_random_control_is_uniform(model: DanceModel, local: LocalGraph) -> None:
    row = max(range(NODES), key=lambda node: len(ranked(model, local, [node]).orders[EVIDENCE][0]))
    found = ranked(model, local, [row])
    size, total = len(found.orders[EVIDENCE][0]), int(found.sizes["candidate_chunks"][0])
    drawn = [chunk for seed in range(300) for chunk in ranked(model, local, [row], seed).orders[RANDOM][0]]
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == total > size
    expected = 300 * size / total
    assert ((counts - expected) ** 2 / expected).sum() < 3 * total
