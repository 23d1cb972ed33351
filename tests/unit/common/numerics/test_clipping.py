from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.clipping import clipped, l2_norm

Tensors = dict[str, torch.Tensor]


def drawn(seed: int, size: float, dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"w": (7, 5), "scale": (), "empty": (0, 3)}
    return {
        name: (size * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype)
        for name, shape in shapes.items()
    }


def flat(tensors: Tensors) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in tensors.values() if value.is_floating_point()])


@given(st.integers(0, 10**6), st.floats(1e-20, 1e18))
def test_the_norm_is_that_of_one_long_vector(seed: int, size: float) -> None:
    tensors = drawn(seed, size)
    assert l2_norm(tensors) == pytest.approx(float(np.linalg.norm(flat(tensors).numpy())), rel=1e-12)


@given(
    st.integers(0, 10**6),
    st.floats(1e-3, 1e3),
    st.floats(1e-2, 1e2),
    st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
def test_no_clipped_update_is_longer_than_the_bound(
    seed: int, size: float, bound: float, dtype: torch.dtype
) -> None:
    tensors = drawn(seed, size, dtype)
    before = {name: value.clone() for name, value in tensors.items()}
    result, norm = clipped(tensors, bound)
    assert norm == l2_norm(tensors)
    assert all(torch.equal(tensors[name], before[name]) for name in tensors)
    assert {n: (v.dtype, v.shape) for n, v in result.items()} == {
        n: (v.dtype, v.shape) for n, v in tensors.items()
    }
    if norm <= bound:
        assert all(torch.equal(result[name], tensors[name]) for name in tensors)
        return
    rounding = max(torch.finfo(dtype).eps, 1e-12)
    assert bound * (1 - 2 * rounding) <= l2_norm(result) <= bound
    torch.testing.assert_close(
        flat(result), flat(tensors) * (bound / norm), rtol=2 * rounding, atol=1e-5 * bound
    )


def test_torch_clips_to_the_same() -> None:
    tensors = drawn(3, 10.0)
    parameters = [torch.nn.Parameter(torch.zeros_like(value)) for value in tensors.values()]
    for parameter, value in zip(parameters, tensors.values(), strict=True):
        parameter.grad = value.clone()
    torch.nn.utils.clip_grad_norm_(parameters, 2.5)
    result, _ = clipped(tensors, 2.5)
    for parameter, value in zip(parameters, result.values(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(value, parameter.grad)


def test_small_values_are_not_lost_beside_large_ones() -> None:
    """A million ones beside a thousand: float32 would lose the ones."""
    assert l2_norm({"a": torch.tensor([2.0**14]), "b": torch.ones(10**6)}) == math.sqrt(2.0**28 + 10**6)


def test_zeros_and_nothing_have_norm_zero() -> None:
    for tensors in ({}, {"w": torch.zeros(3)}, {"w": torch.empty(0)}, {"n": torch.tensor([5])}):
        result, norm = clipped(tensors, 1.0)
        assert norm == 0.0
        assert all(torch.equal(result[name], tensors[name]) for name in tensors)


def test_counts_pass_and_are_not_covered() -> None:
    tensors = {"w": torch.tensor([3.0, 4.0]), "n": torch.tensor([10**9]), "on": torch.tensor(True)}
    result, norm = clipped(tensors, 1.0)
    assert norm == 5.0
    torch.testing.assert_close(result["w"], torch.tensor([0.6, 0.8]))
    assert torch.equal(result["n"], tensors["n"])
    assert torch.equal(result["on"], tensors["on"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    tensors = {"w": torch.tensor([1.0, value])}
    assert not math.isfinite(l2_norm(tensors))
    with pytest.raises(
        DivergenceError, match=r"norm (nan|inf) cannot be clipped: lower train\.learning-rate"
    ):
        clipped(tensors, 1.0)
