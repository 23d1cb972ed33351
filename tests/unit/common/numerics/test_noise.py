"""Each interval holds with probability 1 - 1e-6 for correct noise; the seeds are fixed, so nothing flickers."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import scipy.stats
import torch

from fedtag.common.numerics.noise import entropy_generator, gaussian, laplace, share_of_noise

LIKE = {"w": torch.zeros(100, 90), "scale": torch.zeros(()), "b": torch.zeros(1001, dtype=torch.float64)}
LEVEL = 1e-6


def flat(tensors: dict[str, torch.Tensor]) -> np.ndarray:
    return np.concatenate([value.double().flatten().numpy() for value in tensors.values()])


def assert_normal(values: np.ndarray, deviation: float) -> None:
    n = len(values)
    low, high = scipy.stats.chi2.ppf([LEVEL / 2, 1 - LEVEL / 2], n)
    assert low < float((values**2).sum()) / deviation**2 < high
    assert abs(values.mean()) < scipy.stats.norm.isf(LEVEL / 2) * deviation / math.sqrt(n)
    assert scipy.stats.kstest(values / deviation, "norm").pvalue > LEVEL
    assert scipy.stats.kstest(np.abs(values) / deviation, "halfnorm").pvalue > LEVEL


@pytest.mark.parametrize("deviation", [1e-4, 0.7, 30.0])
def test_central_noise_has_the_configured_deviation(deviation: float) -> None:
    noise = gaussian(LIKE, deviation, np.random.default_rng(1).bytes)
    assert {n: (v.shape, v.dtype) for n, v in noise.items()} == {
        n: (v.shape, v.dtype) for n, v in LIKE.items()
    }
    assert_normal(flat(noise), deviation)


@pytest.mark.parametrize(("threshold", "colluders"), [(3, 0), (7, 0), (14, 4)])
def test_the_honest_parts_of_distributed_noise_sum_to_it(threshold: int, colluders: int) -> None:
    sigma, clip = 1.3, 0.4
    share = share_of_noise(sigma, clip, threshold, colluders)
    parts = [
        flat(gaussian(LIKE, share, np.random.default_rng(100 + k).bytes))
        for k in range(threshold - colluders)
    ]
    assert_normal(np.sum(parts, axis=0), sigma * clip)
    assert_normal(parts[0], share)


def test_values_are_independent_of_each_other() -> None:
    """Both halves of a pair come from the same two uniform numbers; no lag shows a correlation."""
    values = flat(gaussian({"w": torch.zeros(20_000)}, 1.0, np.random.default_rng(2).bytes))
    n = len(values)
    for lag in (1, 2, n // 2):
        for one, other in ((values[:-lag], values[lag:]), (values[:-lag] ** 2, values[lag:] ** 2)):
            correlation = np.corrcoef(one, other)[0, 1]
            assert abs(correlation) < scipy.stats.norm.isf(LEVEL / 2) / math.sqrt(n - lag)


def test_extreme_bytes_give_finite_noise() -> None:
    for byte in (b"\x00", b"\xff", b"\x80"):
        assert np.isfinite(flat(gaussian(LIKE, 1.0, lambda count, byte=byte: byte * count))).all()


def test_the_order_of_names_leaves_no_trace_and_sizes_may_be_odd() -> None:
    one = gaussian(LIKE, 1.0, np.random.default_rng(3).bytes)
    other = gaussian(dict(reversed(LIKE.items())), 1.0, np.random.default_rng(3).bytes)
    assert all(torch.equal(one[name], other[name]) for name in LIKE)
    for size in (0, 1, 2, 3):
        assert gaussian({"w": torch.zeros(size)}, 1.0, np.random.default_rng(0).bytes)["w"].shape == (size,)


def test_counts_get_no_noise_and_zero_is_none() -> None:
    noise = gaussian({"n": torch.tensor([3, 4]), "w": torch.ones(3)}, 0.0, np.random.default_rng(0).bytes)
    assert torch.equal(noise["n"], torch.tensor([0, 0]))
    assert torch.equal(noise["w"].abs(), torch.zeros(3))


def test_real_noise_comes_from_the_operating_system() -> None:
    assert entropy_generator() is os.urandom
    torch.manual_seed(0)
    wide = {"b": torch.zeros(1001, dtype=torch.float64)}  # float32 would meet by chance
    one = gaussian(wide, 1.0, entropy_generator())
    torch.manual_seed(0)
    other = gaussian(wide, 1.0, entropy_generator())
    assert not np.isin(flat(one), flat(other)).any()


@pytest.mark.parametrize("scale", [1e-3, 2.5])
def test_laplace_noise_has_the_configured_scale(scale: float) -> None:
    values = laplace(torch.zeros(100, 120), scale, np.random.default_rng(5).bytes)
    assert (values.shape, values.dtype) == ((100, 120), torch.float32)
    assert scipy.stats.kstest(values.double().numpy().ravel() / scale, "laplace").pvalue > LEVEL
    assert torch.equal(laplace(torch.ones(3), 0.0, os.urandom), torch.zeros(3))
