"""Means and intervals against SciPy's paired t-test and NumPy."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fedtag.server.comparison.statistics import Difference, Spread, paired_difference, spread

fractions = st.floats(0, 1, allow_subnormal=False)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("count", [3, 5, 30])
def test_interval_is_that_of_the_paired_t_test(count: int, level: float) -> None:
    rng = np.random.default_rng(count)
    ours, theirs = rng.uniform(0.7, 0.9, (2, count))
    found = paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)), level)
    oracle = stats.ttest_rel(ours, theirs).confidence_interval(level)
    assert found is not None
    assert found.count == count
    assert found.mean == pytest.approx(float(np.mean(ours - theirs)), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-9)


@given(st.lists(fractions, min_size=2, max_size=20))
def test_spread_is_mean_and_sample_deviation(values: list[float]) -> None:
    found = spread(values)
    assert found is not None
    assert found.mean == pytest.approx(statistics.fmean(values), abs=1e-12)
    assert found.std == pytest.approx(statistics.stdev(values), abs=1e-9)
    assert found.count == len(values)


@given(st.dictionaries(st.integers(0, 9), fractions, min_size=3), st.floats(-1, 1, allow_subnormal=False))
def test_a_constant_gain_has_no_interval(baseline: dict[int, float], gain: float) -> None:
    found = paired_difference({seed: value + gain for seed, value in baseline.items()}, baseline)
    assert found is not None
    assert (found.low, found.high) == (None, None)
    assert found.mean == pytest.approx(gain, abs=1e-9)


@given(st.lists(st.tuples(fractions, fractions), min_size=1, max_size=2))
def test_fewer_than_three_pairs_have_no_interval(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = ({seed: pair[side] for seed, pair in enumerate(pairs)} for side in (0, 1))
    found = paired_difference(ours, theirs)
    assert found is not None
    assert (found.low, found.high, found.count) == (None, None, len(pairs))
    assert found.mean == pytest.approx(statistics.fmean(a - b for a, b in pairs), abs=1e-12)


@given(st.lists(st.tuples(fractions, fractions), min_size=3, max_size=10))
def test_exchanging_the_two_turns_the_interval_around(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = ({seed: pair[side] for seed, pair in enumerate(pairs)} for side in (0, 1))
    one, other = paired_difference(ours, theirs), paired_difference(theirs, ours)
    assert one is not None
    assert other is not None
    assume(one.low is not None and other.high is not None)
    assert (one.mean, one.low, one.high) == pytest.approx((-other.mean, -other.high, -other.low), abs=1e-12)


def test_only_common_seeds_are_paired() -> None:
    found = paired_difference({0: 0.8, 1: 0.9, 3: 0.7, 5: 0.1}, {3: 0.4, 1: 0.8, 0: 0.6, 7: 0.9})
    oracle = stats.ttest_rel([0.8, 0.9, 0.7], [0.6, 0.8, 0.4]).confidence_interval(0.95)
    assert found is not None
    assert (found.count, found.low, found.high) == pytest.approx((3, oracle.low, oracle.high))


def test_one_value_has_no_deviation_and_none_has_no_mean() -> None:
    assert spread([0.5]) == Spread(0.5, None, 1)
    assert spread([]) is None
    assert paired_difference({0: 0.5}, {0: 0.25}) == Difference(0.25, None, None, 1)
    assert paired_difference({0: 0.5}, {1: 0.25}) is None
