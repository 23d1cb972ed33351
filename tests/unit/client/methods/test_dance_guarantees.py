from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from entmax import entmax15
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.methods.dance.guarantees import truncation
from fedtag.common.numerics.attention import entmax15_ragged, top_budget
from fedtag.common.numerics.ragged import Ragged


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 4), st.integers(0, 10_000))
def test_truncation_against_a_loop_over_rows(widths: list[int], budget: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = 2 * torch.randn(12, 5, generator=generator)
    sets = [torch.randperm(12, generator=generator)[:width].sort().values for width in widths]
    ptr = torch.tensor([0, *np.cumsum(widths).tolist()])
    candidates = Ragged(ptr, torch.cat(sets))
    scores = torch.randn(candidates.index.numel(), generator=generator)
    kept = top_budget(entmax15_ragged(scores, candidates), candidates, budget)
    found = truncation(scores, candidates, values, kept, budget)
    for row, chosen in enumerate(sets):
        own = scores[ptr[row] : ptr[row + 1]].double()
        if not chosen.numel():
            assert found.distance[row] == found.bound[row] == 0
            assert found.margin[row] == math.inf
            continue
        p = entmax15(own, dim=0)
        top = torch.argsort(own, descending=True)[:budget]
        projected = torch.zeros_like(p).index_copy(0, top, p[top] / p[top].sum())
        vectors = values[chosen].double()
        distance = ((p - projected) @ vectors).norm()
        delta = 1 - p[top].sum()
        assert float(found.distance[row]) == pytest.approx(float(distance), abs=1e-5)
        assert float(found.bound[row]) == pytest.approx(
            2 * float(vectors.norm(dim=1).max() * delta), abs=1e-4
        )
        assert found.distance[row] <= found.bound[row] + 1e-5
        if chosen.numel() <= budget:
            assert found.margin[row] == math.inf
        else:
            ordered = own.sort(descending=True).values
            assert float(found.margin[row]) == pytest.approx(float(ordered[budget - 1] - ordered[budget]))
