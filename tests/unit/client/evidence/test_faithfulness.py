from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedtag.client.evidence.faithfulness import (
    DENSE,
    EVIDENCE,
    RANDOM,
    SELECTED,
    Interval,
    Outcomes,
    Readings,
    area,
    faithfulness_report,
    paired_bootstrap,
    pooled,
    ratio,
)

ORDERS = (EVIDENCE, RANDOM, SELECTED, DENSE)


def readings(*lines: list[tuple[float, bool]]) -> Readings:
    return Readings(
        np.array([[p for p, _ in line] for line in lines]),
        np.array([[right for _, right in line] for line in lines]),
    )


def outcomes() -> Outcomes:
    """Two targets, two steps; numbers that are easy to follow by hand."""
    full = readings([(0.9, True)], [(0.7, False)])
    start = [(0.9, True)], [(0.7, False)]

    def curve(*steps: list[tuple[float, bool]]) -> Readings:
        return readings(*([*first, *rest] for first, rest in zip(start, steps, strict=True)))

    empty = [(0.2, False)], [(0.4, True)]

    def grown(*steps: list[tuple[float, bool]]) -> Readings:
        return readings(*([*first, *rest] for first, rest in zip(empty, steps, strict=True)))

    same = [(0.9, True), (0.9, True)], [(0.7, False), (0.6, False)]
    return Outcomes(
        full,
        {
            EVIDENCE: curve([(0.5, True), (0.1, False)], [(0.7, False), (0.5, False)]),
            RANDOM: curve(*same),
            SELECTED: curve([(0.8, True)], [(0.6, True)]),
            DENSE: curve([(0.9, True), (0.5, True)], [(0.7, False), (0.7, False)]),
        },
        {
            EVIDENCE: grown([(0.6, True), (0.8, True)], [(0.4, True), (0.6, False)]),
            RANDOM: grown([(0.2, False), (0.3, False)], [(0.4, True), (0.4, True)]),
            SELECTED: grown([(0.2, False)], [(0.4, False)]),
            DENSE: grown([(0.2, False), (0.7, True)], [(0.4, True), (0.5, False)]),
        },
        {name: readings([(0.8, True)], [(0.5, True)]) for name in ORDERS},
    )


def test_the_numbers_of_a_report_by_hand() -> None:
    report = faithfulness_report(outcomes(), seed=0, resamples=50)
    assert report["targets"] == 2
    assert report["accuracy"]["full"] == 0.5
    assert report["accuracy"]["removed"] == {EVIDENCE: 0.0, RANDOM: 0.5, SELECTED: 1.0, DENSE: 0.5}
    assert report["accuracy"]["kept"][EVIDENCE] == 0.5
    assert report["accuracy"]["kept_near"][RANDOM] == 1.0
    # (0.9 - 0.1 + 0.7 - 0.5) / 2 and (0 + 0.1) / 2
    assert report["drop"]["removed"][EVIDENCE] == pytest.approx(0.5)
    assert report["drop"]["removed"][RANDOM] == pytest.approx(0.05)
    assert report["drop"]["kept"][EVIDENCE] == pytest.approx(0.1)
    assert report["comprehensiveness_minus"][RANDOM]["estimate"] == pytest.approx(0.45)
    assert report["comprehensiveness_over"][RANDOM]["estimate"] == pytest.approx(10)
    assert report["sufficiency"]["kept"][EVIDENCE]["estimate"] == 1.0
    assert report["sufficiency"]["kept_near"][EVIDENCE]["estimate"] == 2.0
    assert report["curves"]["removed"][EVIDENCE] == {
        "probability": [0.8, 0.6, 0.3],
        "accuracy": [0.5, 0.5, 0.0],
    }
    assert set(report["curves"]["kept"]) == {EVIDENCE, RANDOM, DENSE}
    # trapezoids over [0, 1]: (0.9 + 2 · 0.5 + 0.1) / 4 = 0.5 and (0.7 + 2 · 0.7 + 0.5) / 4 = 0.65
    assert report["area"]["removed"][EVIDENCE] == pytest.approx(0.575)
    goals = {goal["name"]: goal for goal in report["goals"]}
    assert goals["sufficiency"]["met"]
    assert goals["comprehensiveness_over_random"]["met"]
    json.dumps(report, allow_nan=False)


def test_pooling_is_concatenation() -> None:
    report = faithfulness_report(pooled([outcomes(), outcomes()]), seed=0, resamples=20)
    once = faithfulness_report(outcomes(), seed=0, resamples=20)
    assert report["targets"] == 4
    for name in ("accuracy", "drop", "curves", "area"):
        assert report[name] == once[name]


@pytest.mark.parametrize("statistic", [np.subtract, ratio])
def test_the_interval_agrees_with_scipy(statistic: np.ufunc) -> None:
    rng = np.random.default_rng(3)
    first = rng.normal(0.6, 0.4, 150)
    second = 0.4 * first + rng.normal(0.5, 0.2, 150)
    found = paired_bootstrap([first, second], statistic, np.random.default_rng(0), resamples=20_000)
    expected = stats.bootstrap(
        (first, second),
        lambda a, b, axis: statistic(a.mean(axis), b.mean(axis)),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    spread = expected.high - expected.low
    assert found.estimate == pytest.approx(statistic(first.mean(), second.mean()), abs=1e-6)
    assert found.low == pytest.approx(expected.low, abs=0.03 * spread)
    assert found.high == pytest.approx(expected.high, abs=0.03 * spread)
    # Unpaired resampling would be wider by far, which this tolerance tells apart.
    apart = stats.bootstrap(
        (first, second),
        lambda a, b, axis: statistic(a.mean(axis), b.mean(axis)),
        paired=False,
        vectorized=True,
        n_resamples=2000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert abs((apart.high - apart.low) - spread) > 0.1 * spread


def test_the_interval_is_the_seeds_and_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [np.random.default_rng(0).random(30)]
    first = paired_bootstrap(values, lambda mean: mean, np.random.default_rng(5), 100)
    assert first == paired_bootstrap(values, lambda mean: mean, np.random.default_rng(5), 100)
    assert first != paired_bootstrap(values, lambda mean: mean, np.random.default_rng(6), 100)
    monkeypatch.setattr("fedtag.client.evidence.faithfulness._BLOCK", 7 * 30)
    assert first == paired_bootstrap(values, lambda mean: mean, np.random.default_rng(5), 100)


def test_quotients_over_nothing_are_not_numbers() -> None:
    assert ratio(np.array([1.0, 1.0, 0.0, -1.0]), np.array([2.0, 0.0, 0.0, -1.0])).tolist()[:2] == [
        0.5,
        np.inf,
    ]
    nothing = np.zeros(5)
    found = paired_bootstrap([np.ones(5), nothing], ratio, np.random.default_rng(0), 10)
    assert found == Interval(None, None, None)
    found = paired_bootstrap([nothing, nothing], ratio, np.random.default_rng(0), 10)
    assert found.estimate is None
    assert found.low == 0.0
    assert paired_bootstrap([np.zeros(0)], lambda mean: mean, np.random.default_rng(0)).estimate is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_the_area_lies_between_the_extremes_and_is_a_trapezoid_rule(values: list[float]) -> None:
    found = float(area(np.array([values]))[0])
    assert min(values) - 1e-9 <= found <= max(values) + 1e-9
    assert found == pytest.approx(np.trapezoid(values, dx=1 / (len(values) - 1)))


def test_two_drops_below_zero_meet_no_goal() -> None:
    base = outcomes()
    risen = readings([(0.9, True), (1.0, True)], [(0.7, False), (0.9, False)])
    fell = Outcomes(base.full, dict.fromkeys(ORDERS, risen), base.kept, base.kept_near)
    goal = faithfulness_report(fell, seed=0, resamples=20)["goals"][2]
    assert goal["estimate"] is None
    assert not goal["met"]
    assert not goal["secured"]
