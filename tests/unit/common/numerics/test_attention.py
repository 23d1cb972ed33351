from __future__ import annotations

import torch
from entmax import entmax_bisect
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.numerics.attention import entmax15_ragged, straight_through, top_budget
from fedtag.common.numerics.ragged import Ragged, segment_sum

widths_of_rows = st.lists(st.integers(0, 9), min_size=1, max_size=7)


def layout(widths: list[int], seed: int, scale: float = 2.0) -> tuple[torch.Tensor, torch.Tensor]:
    ptr = torch.tensor([0, *widths]).cumsum(0)
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(int(ptr[-1]), generator=generator, dtype=torch.float64) * scale, ptr


def sets(ptr: torch.Tensor) -> Ragged:
    return Ragged(ptr, torch.arange(int(ptr[-1])))


def rows_of(ptr: torch.Tensor) -> torch.Tensor:
    return torch.repeat_interleave(torch.arange(ptr.numel() - 1), ptr.diff())


@settings(deadline=None)
@given(widths_of_rows, st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 3.0, 1e4]))
def test_entmax_is_that_of_bisection(widths: list[int], seed: int, scale: float) -> None:
    scores, ptr = layout(widths, seed, scale)
    p = entmax15_ragged(scores, sets(ptr))
    for part, row in zip(torch.split(p, widths), torch.split(scores, widths), strict=True):
        if len(row):
            expected = entmax_bisect(row - row.max(), alpha=1.5, n_iter=80)
            torch.testing.assert_close(part, expected, atol=1e-7, rtol=0)
            torch.testing.assert_close(part.sum(), torch.ones((), dtype=torch.float64))


def test_entmax_of_two_scores_has_its_closed_form() -> None:
    # For scores (x, 0), p = (a, 1 - a) with sqrt(a) - sqrt(1 - a) = x / 2, until a reaches 1 at x = 2.
    gap = torch.tensor([0.0, 0.3, 1.0, 1.7, 2.0, 5.0], dtype=torch.float64)
    scores = torch.stack([gap, torch.zeros_like(gap)], dim=1).flatten()
    p = entmax15_ragged(scores, sets(torch.arange(0, 13, 2))).view(6, 2)
    torch.testing.assert_close(p[:, 0].sqrt() - p[:, 1].sqrt(), (gap / 2).clamp_max(1.0))
    assert p[4:, 1].tolist() == [0.0, 0.0]


def test_entmax_gradients() -> None:
    scores, ptr = layout([3, 0, 1, 5, 2, 9], 3, 0.7)
    assert torch.autograd.gradcheck(lambda s: entmax15_ragged(s, sets(ptr)), scores.requires_grad_())


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_blocks_hold_every_entry_of_rows_wider_than_one(widths: list[int]) -> None:
    rows = sets(torch.tensor([0, *widths]).cumsum(0))
    positions = torch.cat([block.flatten() for block in rows.blocks] or [torch.zeros(0, dtype=torch.long)])
    held = positions[positions < rows.index.numel()]
    assert held.sort().values.tolist() == (rows.width[rows.row] > 1).nonzero().flatten().tolist()
    for block in rows.blocks:
        assert bool((block < rows.index.numel()).any(0).all())


def test_large_layouts_are_padded_to_at_most_twice_their_size() -> None:
    generator = torch.Generator().manual_seed(0)
    width = (2 ** (10 * torch.rand(5000, generator=generator))).long() + 1
    rows = sets(torch.cat([width.new_zeros(1), width.cumsum(0)]))
    assert sum(block.numel() for block in rows.blocks) <= 2 * rows.index.numel() + (1 << 15)


def test_empty_layouts() -> None:
    none = torch.zeros(0, requires_grad=True)
    p = entmax15_ragged(none, sets(torch.zeros(4, dtype=torch.long)))
    p.sum().backward()
    assert p.numel() == 0
    assert top_budget(p, sets(torch.zeros(4, dtype=torch.long)), 3).numel() == 0


@settings(deadline=None)
@given(widths_of_rows, st.integers(0, 10_000), st.integers(1, 5))
def test_budget_and_projection(widths: list[int], seed: int, budget: int) -> None:
    scores, ptr = layout(widths, seed)
    p = entmax15_ragged(scores.round(decimals=1), sets(ptr))
    support = top_budget(p, sets(ptr), budget)
    for kept, row in zip(torch.split(support, widths), torch.split(p, widths), strict=True):
        order = sorted((i for i in range(len(row)) if row[i] > 0), key=lambda i: (-row[i].item(), i))
        assert sorted(order[:budget]) == kept.nonzero().flatten().tolist()
    w = straight_through(p, support, sets(ptr))
    assert bool((w[~support] == 0).all())
    assert bool((w[support] > 0).all())
    sums = segment_sum(w, ptr)
    torch.testing.assert_close(sums, (ptr.diff() > 0).double())


def test_ties_go_to_the_first() -> None:
    p = entmax15_ragged(torch.zeros(8), sets(torch.tensor([0, 5, 8])))
    assert top_budget(p, sets(torch.tensor([0, 5, 8])), 2).tolist() == [True, True] + [False] * 3 + [
        True,
        True,
        False,
    ]


def test_gradient_is_that_of_entmax_and_value_that_of_the_projection() -> None:
    scores, ptr = layout([4, 0, 6, 1], 11, 0.4)
    weight = torch.randn(scores.numel(), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores.requires_grad_()
    p = entmax15_ragged(scores, sets(ptr))
    support = top_budget(p, sets(ptr), 2)
    w = straight_through(p, support, sets(ptr))
    (expected,) = torch.autograd.grad((p * weight).sum(), scores, retain_graph=True)
    (actual,) = torch.autograd.grad((w * weight).sum(), scores)
    torch.testing.assert_close(actual, expected)
    kept = torch.where(support, p, 0.0).detach()
    total = segment_sum(kept, ptr)[rows_of(ptr)]
    assert torch.equal(w.detach(), kept / total)


def test_a_support_that_lost_its_mass_gets_uniform_weights() -> None:
    p = entmax15_ragged(torch.tensor([9.0, 0.0, 0.0, 1.0]), sets(torch.tensor([0, 3, 4])))
    support = torch.tensor([False, True, True, False])
    w = straight_through(p, support, sets(torch.tensor([0, 3, 4])))
    assert w.tolist() == [0.0, 0.5, 0.5, 0.0]
