"""Convergence, by counting in another way."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.server.comparison.convergence import arrival, curve
from fedtag.server.tracking.rows import RoundRow


def run(vals: Sequence[float | None], tests: Sequence[float | None] = ()) -> list[RoundRow]:
    """Rounds 1, 2, ... that took 1, 2, ... seconds."""
    return [
        RoundRow(number, 1.0, val, test, test, float(number), {}, 1, 1, 3, 0)
        for number, (val, test) in enumerate(zip(vals, tests or vals, strict=True), start=1)
    ]


def test_plateau_is_the_mean_of_the_last_ten_scored_rounds() -> None:
    found = arrival(run([*[0.1] * 9, 0.5, None, 0.792, 0.7, *[0.8] * 5, None, *[0.9, 0.7] * 2]))
    assert found is not None
    assert found.plateau == pytest.approx((0.7 + 5 * 0.8 + 2 * (0.9 + 0.7)) / 10)
    # 99% of 0.79 is 0.7821.
    assert (found.rounds, found.seconds) == (12, sum(range(1, 13)))


def test_short_runs_and_runs_without_validation_have_no_plateau() -> None:
    assert arrival(run([0.5] * 19)) is None
    assert arrival(run([*[0.5] * 19, *[None] * 5])) is None
    assert arrival(run([None] * 20, [0.5] * 20)) is None
    assert arrival([]) is None
    zero = arrival(run([0.0] * 20))
    assert zero is not None
    assert (zero.plateau, zero.rounds) == (0.0, 1)


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=15, max_size=40))
def test_it_is_the_first_round_that_is_good_enough(vals: list[float | None]) -> None:
    found = arrival(run(vals))
    scored = [val for val in vals if val is not None]
    assert (found is None) == (len(scored) < 20)
    if found is None:
        return
    reached = vals[found.rounds - 1]
    assert reached is not None
    assert reached >= 0.99 * found.plateau
    assert all(val is None or val < 0.99 * found.plateau for val in vals[: found.rounds - 1])
    assert found.plateau == pytest.approx(statistics.mean(scored[-10:]))
    assert found.seconds == sum(range(1, found.rounds + 1))


def test_curve_has_the_rounds_in_which_every_finished_run_was_tested() -> None:
    one, other = run([0.5, 0.6, 0.7], [0.4, 0.5, 0.6]), run([None, 0.8, 0.9, 1.0], [0.8, None, 0.8, 0.9])
    points = curve([one, [], other])
    assert [point.round for point in points] == [1, 3]
    assert points[0].val is None
    assert points[1].val is not None
    assert points[1].val.mean == pytest.approx(0.8)
    assert [point.test.mean for point in points] == pytest.approx([0.6, 0.7])
    assert [point.test.std for point in points] == pytest.approx(
        [statistics.stdev([0.4, 0.8]), statistics.stdev([0.6, 0.8])]
    )
    assert [point.test.std for point in curve([one])] == [None] * 3
    assert curve([[], []]) == []
