from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.attacks.measures import area, low_rate, resampled_areas, true_positive_rates
from fedtag.client.attacks.resampling import mean_area

few = st.lists(st.integers(0, 4), min_size=1, max_size=8)


def counted_pairs(members: np.ndarray, others: np.ndarray, counts: np.ndarray, weights: np.ndarray) -> float:
    won = total = 0.0
    for mine, times in zip(members, counts, strict=True):
        for theirs, weight in zip(others, weights, strict=True):
            won += times * weight * ((mine > theirs) + 0.5 * (mine == theirs))
            total += times * weight
    return won / total


@given(few, few, st.data())
def test_areas_are_those_of_counted_pairs(mine: list[int], theirs: list[int], data: st.DataObject) -> None:
    members, others = np.array(mine, float), np.array(theirs, float)
    weights = np.array(data.draw(st.lists(st.floats(0.1, 3), min_size=len(others), max_size=len(others))))
    ones = np.ones(len(members))
    assert area(members, others, weights) == pytest.approx(counted_pairs(members, others, ones, weights))
    counts = np.array(
        [data.draw(st.lists(st.integers(0, 3), min_size=len(members), max_size=len(members))), ones]
    ).astype(float)
    counts[0, 0] += 1
    both = np.stack([weights, weights[::-1]])
    assert resampled_areas(members, others, counts, both) == pytest.approx(
        [counted_pairs(members, others, count, weight) for count, weight in zip(counts, both, strict=True)]
    )


@given(few, few, st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_rates_are_the_best_of_all_thresholds(
    mine: list[int], theirs: list[int], wanted: list[float]
) -> None:
    members, others = np.array(mine, float), np.array(theirs, float)
    weights = 1.0 + np.arange(len(others))
    rates = true_positive_rates(members, others, weights, np.array(wanted))
    for rate, found in zip(wanted, rates, strict=True):
        best = 0.0
        for threshold in [*members, *others, 99.0]:
            if weights[others >= threshold].sum() / weights.sum() <= rate + 1e-9:
                best = max(best, float((members >= threshold).mean()))
        assert found == pytest.approx(best)


def test_low_rates_need_500_non_members() -> None:
    generator = np.random.default_rng(0)
    members, others = generator.normal(3, 1, 100), generator.normal(0, 1, 499)
    assert low_rate(members, others, np.ones(499)) is None
    others = np.append(others, 0.0)
    expected = (members > np.sort(others)[-6]).mean()
    assert low_rate(members, others, np.ones(500)) == pytest.approx(expected)


def test_intervals_cover_the_true_area_as_often_as_they_say() -> None:
    """Normal scores: the area between N(d, 1) and N(0, 1) is Φ(d / √2)."""
    from scipy.stats import norm

    generator = np.random.default_rng(1)
    shift, covered, trials = 0.8, 0, 200
    true = norm.cdf(shift / np.sqrt(2))
    for _ in range(trials):
        members, others = generator.normal(shift, 1, (1, 60)), generator.normal(0, 1, (1, 150))
        found = mean_area(
            members,
            others,
            np.ones(150),
            np.array([area(members[0], others[0], np.ones(150))]),
            300,
            generator,
        )
        covered += found.low <= true <= found.high
    # Five standard errors of a share of 0.95 over so many trials, and a little for the percentile's bias.
    assert 0.87 <= covered / trials <= 0.995


def test_models_and_nodes_both_widen_the_interval() -> None:
    """With scores of its own for each model the mean is surer than one model's, with shared ones it is not."""
    generator = np.random.default_rng(2)
    members, others = generator.normal(0.5, 1, (8, 40)), generator.normal(0, 1, (8, 80))
    flat = np.ones(80)

    def width(mine: np.ndarray, theirs: np.ndarray) -> float:
        areas = np.array([area(*pair, flat) for pair in zip(mine, theirs, strict=True)])
        found = mean_area(mine, theirs, flat, areas, 400, np.random.default_rng(3))
        assert found.mean == pytest.approx(areas.mean())
        return found.high - found.low

    one = width(members[:1], others[:1])
    assert width(members, others) < 0.75 * one
    assert width(np.repeat(members[:1], 8, 0), np.repeat(others[:1], 8, 0)) == pytest.approx(one, rel=0.2)


def test_the_draws_do_not_depend_on_more_than_the_generator() -> None:
    generator = np.random.default_rng(4)
    members, others = generator.normal(1, 1, (2, 20)), generator.normal(0, 1, (2, 30))
    found = [
        mean_area(members, others, np.ones(30), np.array([0.7, 0.8]), 50, np.random.default_rng(5))
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert found[0].mean == pytest.approx(0.75)
