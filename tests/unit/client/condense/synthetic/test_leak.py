from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.condense.synthetic import leak as module
from fedtag.client.condense.synthetic.leak import Leak, leak


@given(st.integers(0, 2**31), st.integers(1, 7), st.integers(1, 12), st.floats(0.01, 3))
def test_shares_against_brute_force(seed: int, core: int, nodes: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    real = torch.randn(nodes, 3, generator=generator).double()
    rows = real[torch.randint(nodes, (core,), generator=generator)]
    made = rows + scale * torch.randn(core, 3, generator=generator).double()
    close = 0
    for row in made:
        apart = [float((row - one).norm()) for one in real]
        nearest = apart.index(min(apart))
        others = [float((real[nearest] - real[k]).norm()) for k in range(nodes) if k != nearest]
        close += min(apart) < min(others, default=float("inf"))
    assert leak(made, real) == Leak(0.0, close / core)


def test_copies_count_bit_for_bit_and_zeros_have_no_sign() -> None:
    real = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    made = torch.tensor([[-0.0, 1.0], [2.0, 3.0000002], [9.0, 9.0]])
    assert leak(made, real).copied == pytest.approx(1 / 3)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    real, made = torch.randn(50, 3, generator=generator), torch.randn(20, 3, generator=generator)
    whole = leak(made, real)
    monkeypatch.setattr(module, "BLOCK", 3)
    assert leak(made, real) == whole
    assert 0 < whole.close < 1


def test_nothing_leaks_from_an_empty_condensed_graph() -> None:
    assert leak(torch.zeros(0, 3), torch.ones(4, 3)) == Leak(0.0, 0.0)
