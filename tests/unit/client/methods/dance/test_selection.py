from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.methods.dance.neighbours import one_hop, prediction_entropy, prefilter, two_hop
from fedtag.client.methods.dance.selection import (
    attention,
    choose,
    chunk_candidates,
    context,
    gather_scores,
    hop_mixture,
    weighted_sum,
)
from fedtag.common.numerics.ragged import Ragged, merge, stack


def candidates(rows: int, nodes: int, seed: int) -> Ragged:
    mask = torch.rand(rows, nodes, generator=torch.Generator().manual_seed(seed)) < 0.4
    mask[0] = False
    row, index = mask.nonzero(as_tuple=True)
    return Ragged.from_pairs(row, index, rows)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_scores_and_sums_agree_with_dense_products() -> None:
    sets = candidates(5, 7, 1)
    query, key = random(5, 4), random(7, 4, seed=1)
    dense = query @ key.T / 2
    scores = gather_scores(query, key, sets)
    torch.testing.assert_close(scores, dense[sets.row, sets.index])
    weights = random(sets.index.numel(), seed=2)
    matrix = torch.zeros(5, 7, dtype=torch.float64).index_put((sets.row, sets.index), weights)
    torch.testing.assert_close(weighted_sum(weights, key, sets), matrix @ key)


def test_gradients_of_scores_and_sums() -> None:
    sets = candidates(4, 5, 3)
    query, key = random(4, 3).requires_grad_(), random(5, 3, seed=1).requires_grad_()
    weights = random(sets.index.numel(), seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: gather_scores(a, b, sets), (query, key))
    assert torch.autograd.gradcheck(lambda w, v: weighted_sum(w, v, sets), (weights, key))


def test_mixture_drops_hops_without_candidates() -> None:
    hops = [
        Ragged(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1])),
        Ragged(torch.tensor([0, 1, 1, 1]), torch.tensor([1])),
        Ragged(torch.tensor([0, 0, 1, 1]), torch.tensor([0])),
    ]
    logits = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mixture = hop_mixture(logits, hops)
    e = [math.exp(i) for i in (1, 2, 3)]
    expected = [
        [e[0] / (e[0] + e[1]), e[1] / (e[0] + e[1]), 0],
        [e[0] / (e[0] + e[2]), 0, e[2] / (e[0] + e[2])],
    ]
    torch.testing.assert_close(mixture, torch.tensor([*expected, [0.0, 0.0, 0.0]]))
    (mixture * torch.randn(3, 3)).sum().backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())


def test_context_is_the_double_sum() -> None:
    hops = [candidates(6, 9, seed) for seed in (1, 2, 3)]
    weights = [random(hop.index.numel(), seed=seed) for seed, hop in enumerate(hops)]
    t, logits = random(9, 4, seed=7), random(3, seed=8)
    result, mixture = context(logits, stack(*hops), torch.cat(weights), t), hop_mixture(logits, hops)
    for v in range(6):
        expected = torch.zeros(4, dtype=torch.float64)
        for number, (hop, weight) in enumerate(zip(hops, weights, strict=True)):
            for place in hop.entries_of(torch.tensor([v])).tolist():
                expected += mixture[v, number] * weight[place] * t[hop.index[place]]
        torch.testing.assert_close(result[v], expected)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=6, max_size=6), st.integers(0, 1000))
def test_chunk_candidates_are_the_chunks_of_the_selected(chunks: list[int], seed: int) -> None:
    selected = candidates(5, 6, seed)
    ptr = torch.tensor([0, *chunks]).cumsum(0)
    result = chunk_candidates(selected, ptr)
    for v in range(5):
        nodes = selected.select(torch.tensor([v])).index.tolist()
        expected = [chunk for u in nodes for chunk in range(int(ptr[u]), int(ptr[u + 1]))]
        assert result.select(torch.tensor([v])).index.tolist() == expected


def test_budgets_hold_from_neighbours_to_chunks() -> None:
    generator = torch.Generator().manual_seed(4)
    upper = (torch.rand(120, 120, generator=generator) < 0.05).triu(1)
    edges = (upper | upper.T).nonzero().T
    core = torch.arange(0, 120, 5)
    g, t = random(120, 8), random(120, 16, seed=1)
    chunk_ptr = torch.cat(
        [torch.zeros(1, dtype=torch.long), torch.randint(1, 6, (120,), generator=generator).cumsum(0)]
    )
    e = random(int(chunk_ptr[-1]), 16, seed=2)
    w_q, w_k, w_s = (random(16, dim, seed=dim).requires_grad_() for dim in (8, 16, 8))
    logits = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    difficulty = prediction_entropy(random(120, 3, seed=5).softmax(1))

    budgets = (1, 3, 2)
    far = prefilter(two_hop(edges, 120, rows=core), difficulty, 4 * budgets[2])
    hops = [Ragged.singletons(core), one_hop(edges, 120).select(core), far]
    scores = [gather_scores(g[core] @ w_q.T, t @ w_k.T, hop) for hop in hops]
    supports = [choose(s, hop, b) for s, hop, b in zip(scores, hops, budgets, strict=True)]
    selected = [hop.filter(support) for hop, support in zip(hops, supports, strict=True)]
    weights = [attention(s, hop, m) for s, hop, m in zip(scores, hops, supports, strict=True)]
    for hop, support, part, budget in zip(hops, weights, selected, budgets, strict=True):
        assert torch.equal(part.width > 0, hop.width > 0)
        assert int(part.width.max()) <= budget
        assert torch.equal(hop.filter(support != 0).index, part.index)
    together = merge(*selected)
    assert torch.equal(together.width, torch.stack([part.width for part in selected]).sum(0))

    chunks = chunk_candidates(together, chunk_ptr)
    chunk_scores = gather_scores(g[core] @ w_s.T, e, chunks)
    kept = choose(chunk_scores, chunks, 4)
    assert int(chunks.filter(kept).width.min()) >= 1
    assert int(chunks.filter(kept).width.max()) <= 4
    pi = attention(chunk_scores, chunks, kept)
    loss = (weighted_sum(pi, e, chunks) + context(logits, stack(*hops), torch.cat(weights), t)).square().sum()
    loss.backward()
    for parameter in (w_q, w_k, w_s, logits):
        assert parameter.grad is not None
        assert bool(parameter.grad.isfinite().all())
        assert float(parameter.grad.abs().max()) > 0
