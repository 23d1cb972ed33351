from __future__ import annotations

import math
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedtag.client.methods.dance import neighbours
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
@given(
    st.integers(1, 30),
    st.floats(0, 0.4),
    st.integers(0, 1000),
    st.sampled_from([1, 20, 10**6]),
    st.sampled_from([1, 40, 10**6]),
)
def test_hops_agree_with_matrix_powers(
    nodes: int, probability: float, seed: int, block: int, paths: int
) -> None:
    """Whatever a row may walk: a set that is not above the cap is whole."""
    edges = random_edges(nodes, probability, seed)
    a = torch.zeros(nodes, nodes)
    a[edges[1], edges[0]] = 1
    near = a > 0
    exact = (a @ a > 0) & ~near & ~torch.eye(nodes, dtype=torch.bool)
    assert torch.equal(dense(one_hop(edges, nodes), nodes), near)
    hop = two_hop(edges, nodes, cap=nodes, paths=paths, block_entries=block)
    assert torch.equal(dense(hop, nodes), exact)
    assert torch.equal(hop.index, torch.cat([row.nonzero().flatten() for row in exact]))


def test_sets_under_the_cap_are_those_of_a_squared_matrix() -> None:
    nodes = 2000
    rng = np.random.default_rng(0)
    ends = (rng.random((2, 6000)) ** 3 * nodes).astype(np.int64)  # few nodes have many edges
    once = torch.from_numpy(ends[:, ends[0] != ends[1]])
    edges = torch.cat([once, once.flip(0)], dim=1)
    a = sparse.csr_array((np.ones(edges.shape[1]), edges.numpy()), shape=(nodes, nodes)).sign()
    squared = ((a @ a).sign() - a.maximum(sparse.eye_array(nodes)) > 0).astype(int)
    full = np.diff(squared.tocsr().indptr)
    hop = two_hop(edges, nodes, cap=300, paths=2000)
    assert hop.width.tolist() == np.minimum(full, 300).tolist()
    assert (full > 300).any()
    assert ((a @ a.sum(1)) > 2000).any()
    found = sparse.csr_array((np.ones(hop.index.numel(), int), hop.index, hop.ptr), shape=(nodes, nodes))
    assert (found - squared).max() == 0
    whole = full <= 300
    assert (found[whole] != squared.tocsr()[whole]).nnz == 0


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


@pytest.mark.parametrize("paths", [1, 60])
def test_thinning_does_not_depend_on_blocks_or_rows(paths: int) -> None:
    edges = random_edges(80, 0.1, 5)
    whole, full = two_hop(edges, 80, 3, paths, seed=3), two_hop(edges, 80, cap=80)
    assert torch.equal(whole.width, full.width.clamp_max(3))
    assert bool((dense(whole, 80) <= dense(full, 80)).all())
    assert not torch.equal(whole.index, two_hop(edges, 80, 3, seed=3).index)
    assert torch.equal(two_hop(edges, 80, 3, paths, seed=3, block_entries=5).index, whole.index)
    rows = torch.tensor([70, 3, 41])
    assert torch.equal(two_hop(edges, 80, 3, paths, 3, rows).index, whole.select(rows).index)
    assert not torch.equal(two_hop(edges, 80, 3, paths, seed=4).index, whole.index)


@pytest.mark.parametrize("paths", [1, 10**6])
def test_nodes_that_many_paths_reach_are_drawn_no_more_often(paths: int) -> None:
    # Node 0 has ten neighbours; 40 nodes are linked to all of them, and 40 to one.
    near, many, few = torch.arange(1, 11), torch.arange(11, 51), torch.arange(51, 91)
    pairs = [
        torch.stack([near * 0, near]),
        torch.cartesian_prod(near, many).T,
        torch.stack([few * 0 + 1, few]),
    ]
    edges = torch.cat([*pairs, *(pair.flip(0) for pair in pairs)], dim=1)
    draws, cap = 400, 8
    counts = torch.zeros(91, dtype=torch.long)
    for seed in range(draws):
        drawn = two_hop(edges, 91, cap, paths, seed, torch.tensor([0]))
        assert drawn.width.tolist() == [cap]
        counts += torch.bincount(drawn.index, minlength=91)
    assert not counts[:11].any()
    share = cap / 80
    spread = math.sqrt(draws * share * (1 - share))
    assert bool(((counts[11:] - draws * share).abs() < 4.5 * spread).all())
    assert abs(int(counts[many].sum()) - draws * cap / 2) < 4.5 * math.sqrt(draws * cap / 4)


def test_what_is_walked_and_held_is_bounded_where_the_square_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A star: its squared matrix has 36 million entries, of four bytes and a position each."""
    leaves = torch.arange(1, 6000)
    edges = torch.cat([torch.stack([leaves, leaves * 0]), torch.stack([leaves * 0, leaves])], dim=1)
    walked: list[int] = []
    block = neighbours._two_hop_block

    def counted(near: Any, far: Any, rows: Any, cap: int, seed: int) -> Any:
        walked.append(int(neighbours._paths(near, far)[rows].sum()))
        return block(near, far, rows, cap, seed)

    monkeypatch.setattr(neighbours, "_two_hop_block", counted)
    tracemalloc.start()
    hop = two_hop(edges, 6000, cap=16, paths=256, block_entries=100_000)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert hop.width.tolist() == [0] + [16] * 5999
    assert sum(walked) < 6000 * 256
    # A block, and the edges and sets.
    assert max(walked) < 100_000 + 6000
    assert held < 25e6


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
        assert torch.equal(prefilter(hop, score, keep, order, block_entries=7).index, kept.index)  # type: ignore[arg-type]
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
