from __future__ import annotations

import os
from itertools import combinations

import numpy as np
import pytest

from fedtag.common.errors import DivergenceError, WireError
from fedtag.common.parts.neighbour_exchange.masked_parts import added, masked_part, opened
from fedtag.common.secure.fixed_point import FixedPoint

FIXED = FixedPoint(40, 16384.0)
SIZE = 501


class Circle:
    """Contributors with keys of every pair, and keys that each shares with the recipient."""

    def __init__(self, members: int) -> None:
        rng = np.random.default_rng(members)
        self.members = range(members)
        self.pair = {pair: os.urandom(32) for pair in combinations(self.members, 2)}
        self.own = [os.urandom(32) for _ in self.members]
        self.values = [rng.normal(0, 3, SIZE) for _ in self.members]

    def part(self, member: int) -> bytes:
        plus = [key for (low, _), key in self.pair.items() if low == member]
        minus = [key for (_, high), key in self.pair.items() if high == member]
        return masked_part(self.values[member], FIXED, [*plus, self.own[member]], minus)


@pytest.mark.parametrize("members", [1, 2, 3, 9])
def test_the_sum_is_exact_in_fixed_point(members: int) -> None:
    circle = Circle(members)
    found = opened(added([circle.part(one) for one in circle.members]), SIZE, FIXED, circle.own)
    # Python's integers have no rounding: the sum of the encoded values, decoded once.
    encoded = [[round(value * 2**40) for value in values] for values in circle.values]
    expected = [sum(column) / 2**40 for column in zip(*encoded, strict=True)]
    np.testing.assert_array_equal(found, expected)
    assert np.abs(found - sum(circle.values)).max() <= FIXED.error_bound(members)


def test_neither_parts_nor_the_sum_say_anything_without_the_recipients_keys() -> None:
    """Zeros and large numbers give bytes that are equally uniform (chi-square at 1 in 10^6), and do not correlate."""
    circle = Circle(3)
    circle.values = [np.zeros(4000), np.full(4000, 9000.0), np.linspace(-1, 1, 4000)]
    parts = [circle.part(one) for one in circle.members]
    for body in (*parts, added(parts)):
        counts = np.bincount(np.frombuffer(body, np.uint8), minlength=256)
        expected = len(body) / 256
        assert ((counts - expected) ** 2 / expected).sum() < 255 + 5.5 * (2 * 255) ** 0.5
    seen = np.frombuffer(added(parts), "<i8").astype(float)
    assert abs(np.corrcoef(seen, circle.values[2])[0, 1]) < 0.1


def test_a_recipient_that_sees_single_parts_still_learns_the_sum_alone() -> None:
    circle = Circle(3)
    for member in circle.members:
        alone = opened(circle.part(member), SIZE, FIXED, [circle.own[member]])
        assert np.abs(alone - circle.values[member]).min() > 1.0


def test_a_missing_part_leaves_noise() -> None:
    circle = Circle(3)
    found = opened(added([circle.part(0), circle.part(1)]), SIZE, FIXED, circle.own[:2])
    assert np.abs(found - circle.values[0] - circle.values[1]).min() > 1.0


def test_lengths_and_sizes_are_checked() -> None:
    circle = Circle(2)
    with pytest.raises(WireError, match="different lengths"):
        added([circle.part(0), circle.part(1)[:-8]])
    with pytest.raises(WireError, match="different lengths"):
        added([b"abc"])
    with pytest.raises(WireError, match="bytes"):
        opened(circle.part(0), SIZE + 1, FIXED, circle.own)
    with pytest.raises(DivergenceError, match="limit"):
        masked_part(np.array([1e9]), FIXED, [], [])
