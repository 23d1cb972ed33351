from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ConfigError, DivergenceError
from fedtag.common.secure.fixed_point import FixedPoint

FIXED = FixedPoint(40, 16384.0)


def test_encodes_by_the_closed_form() -> None:
    values = np.array([0.0, 1.0, -1.0, 2.0**-41, 3 * 2.0**-41, -16384.0])
    expected = [0, 2**40, 2**64 - 2**40, 0, 2, 2**64 - 2**54]  # halves go to the even neighbour
    assert FIXED.encode(values).tolist() == expected


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20), st.integers(8, 52))
def test_a_sum_stays_within_the_bound_of_exact_rationals(values: list[float], scale_bits: int) -> None:
    fixed = FixedPoint(scale_bits, 100.0)
    total = np.zeros(1, np.uint64)
    for value in values:
        total += fixed.encode(np.array([value]))
    exact = sum(Fraction(value) for value in values)
    decoded = Fraction(float(fixed.decode(total)[0]))
    rounding = Fraction(2) ** -53 * abs(exact)
    assert abs(decoded - exact) <= Fraction(fixed.error_bound(len(values))) + rounding * 2


@pytest.mark.parametrize(
    ("scale_bits", "limit"), [(40, 16384.0), (40, 3.3), (52, 1.0), (8, 0.001), (30, 1e5 / 7)]
)
def test_as_many_clients_as_it_says_cannot_wrap_and_one_more_could(scale_bits: int, limit: float) -> None:
    fixed = FixedPoint(scale_bits, limit)
    largest = int(fixed.encode(np.array([limit]))[0])
    assert largest <= math.ceil(Fraction(limit) * 2**scale_bits)
    assert fixed.most_clients * largest < 2**63
    assert (fixed.most_clients + 1) * math.ceil(Fraction(limit) * 2**scale_bits) >= 2**63


def test_full_sums_of_both_signs_decode() -> None:
    for sign in (1.0, -1.0):
        one = FIXED.encode(np.array([sign * FIXED.limit]))
        total = one * np.uint64(FIXED.most_clients)
        assert FIXED.decode(total)[0] == sign * FIXED.limit * FIXED.most_clients


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 16384.01, -16385.0])
def test_refuses_what_no_sum_could_carry(value: float) -> None:
    with pytest.raises(DivergenceError, match=r"the limit is 16384: raise privacy\.limit"):
        FIXED.encode(np.array([0.0, value]))


def test_an_empty_vector_is_a_vector() -> None:
    assert FIXED.decode(FIXED.encode(np.zeros(0))).shape == (0,)


@pytest.mark.parametrize(
    ("scale_bits", "limit"), [(0, 1.0), (63, 1.0), (40, 0.0), (52, 2000.0), (40, math.inf)]
)
def test_refuses_settings_without_room(scale_bits: int, limit: float) -> None:
    with pytest.raises(ConfigError, match="leave no room for a sum in 64 bits"):
        FixedPoint(scale_bits, limit)


def test_leaves_its_argument_alone() -> None:
    values = np.array([1.5, -2.5])
    FIXED.encode(values)
    assert values.tolist() == [1.5, -2.5]
