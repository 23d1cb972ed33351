from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.methods.dance.neighbours import one_hop, prediction_entropy, prefilter, two_hop
from fedtag.common.numerics.ragged import Ragged


def random_edges(nodes: int, probability: float, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    upper = (torch.rand(nodes, nodes, generator=generator) < probability).triu(1)
    return (upper | upper.T).nonzero().T.contiguous()


def dense(value: Ragged, nodes: int) -> torch.Tensor:
    matrix = torch.zeros(value.num_rows, nodes, dtype=torch.bool)
    matrix[value.row, value.index] = True
    return matrix


@settings(deadline=None)
@given(st.integers(1, 30), st.floats(0, 0.4), st.integers(0, 1000), st.sampled_from([1, 20, 10**6]))
def test_hops_agree_with_matrix_powers(nodes: int, probability: float, seed: int, block: int) -> None:
    edges = random_edges(nodes, probability, seed)
    a = torch.zeros(nodes, nodes)
    a[edges[1], edges[0]] = 1
    near = a > 0
    exact = (a @ a > 0) & ~near & ~torch.eye(nodes, dtype=torch.bool)
    assert torch.equal(dense(one_hop(edges, nodes), nodes), near)
    hop = two_hop(edges, nodes, cap=nodes, block_entries=block)
    assert torch.equal(dense(hop, nodes), exact)
    assert torch.equal(hop.index, torch.cat([row.nonzero().flatten() for row in exact]))


def test_loops_and_repeated_edges_change_nothing() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 1, 2, 2], [1, 0, 2, 1, 1, 2, 1]])
    assert two_hop(edges, 3).index.tolist() == [2, 0]
    assert two_hop(edges, 3).ptr.tolist() == [0, 1, 1, 2]


def test_sampling_is_capped_and_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = random_edges(80, 0.1, 5)
    whole, full = two_hop(edges, 80, cap=7, seed=3), two_hop(edges, 80, cap=80)
    assert torch.equal(whole.width, full.width.clamp_max(7))
    assert bool((dense(whole, 80) <= dense(full, 80)).all())
    small = two_hop(edges, 80, cap=7, seed=3, block_entries=50)
    assert torch.equal(small.index, whole.index)
    rows = torch.tensor([70, 3, 41])
    some = two_hop(edges, 80, cap=7, seed=3, rows=rows)
    assert torch.equal(some.index, whole.select(rows).index)
    assert torch.equal(some.ptr, whole.select(rows).ptr)
    assert not torch.equal(two_hop(edges, 80, cap=7, seed=4).index, whole.index)
    for slack in (-1.0, 0.0, 100.0):  # how well the first cut fits decides about time only
        monkeypatch.setattr("fedtag.client.methods.dance.neighbours._SLACK", slack)
        assert torch.equal(two_hop(edges, 80, cap=7, seed=3).index, whole.index)


def test_sampling_is_uniform() -> None:
    # A star: every leaf sees the 40 others at two hops.
    leaves = torch.arange(1, 42)
    edges = torch.cat([torch.stack([leaves, leaves * 0]), torch.stack([leaves * 0, leaves])], dim=1)
    counts = sum(torch.bincount(two_hop(edges, 42, cap=10, seed=s).index, minlength=42) for s in range(50))
    assert isinstance(counts, torch.Tensor)
    expected = 50 * 40 * 10 / 40
    assert counts[0] == 0
    spread = math.sqrt(50 * 40 * 0.25 * 0.75)
    assert bool(((counts[1:] - expected).abs() < 4.5 * spread).all())


@settings(deadline=None)
@given(st.integers(0, 1000), st.integers(0, 6))
def test_prefilter_keeps_the_extremes_with_ties_by_id(seed: int, keep: int) -> None:
    hop = one_hop(random_edges(15, 0.4, seed), 15)
    score = torch.randint(4, (15,), generator=torch.Generator().manual_seed(seed)).float()
    for order, sign in (("largest", -1), ("smallest", 1)):
        kept = prefilter(hop, score, keep, order)  # type: ignore[arg-type]
        for row in range(15):
            members = hop.select(torch.tensor([row])).index.tolist()
            pairs = sorted((sign * score[u].item(), u) for u in members)[:keep]
            assert kept.select(torch.tensor([row])).index.tolist() == sorted(u for _, u in pairs)
    assert torch.equal(prefilter(hop, score, keep, "none").index, hop.index)


def test_entropy() -> None:
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    torch.testing.assert_close(prediction_entropy(p), torch.tensor([0.0, math.log(2)]))


@pytest.mark.benchmark
def test_a_real_graph_is_quick(shared_data: Path) -> None:
    folder = shared_data / "arxiv2023_titles"
    nodes = pd.read_parquet(folder / "nodes.parquet")["node_id"].to_numpy()
    frame = pd.read_parquet(folder / "edges.parquet")
    order = np.argsort(nodes)
    ends = [order[np.searchsorted(nodes[order], frame[name].to_numpy())] for name in ("src", "dst")]
    once = torch.as_tensor(np.stack(ends))
    edges = torch.cat([once, once.flip(0)], dim=1)
    start = time.perf_counter()
    hop = two_hop(edges, len(nodes), cap=256)
    assert time.perf_counter() - start < 30
    assert int(hop.width.max()) == 256
