from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.numerics.shares import BALANCE, capped_shares, largest_share, outweighing

amounts = st.lists(st.integers(0, 10**9), min_size=1, max_size=12).filter(any)


@given(amounts, st.floats(0.01, 0.9))
def test_no_share_is_above_the_largest_and_none_is_lost(counts: list[int], most: float) -> None:
    shares = {str(place): count / sum(counts) for place, count in enumerate(counts)}
    bound = largest_share(most, sum(count > 0 for count in counts))
    capped = capped_shares(shares, most)
    assert max(capped.values()) <= bound + 1e-12
    assert sum(capped.values()) == pytest.approx(1)
    assert [name for name in capped if capped[name] > 0] == [name for name in shares if shares[name] > 0]
    order = sorted(shares, key=lambda name: shares[name])
    assert all(capped[a] <= capped[b] + 1e-12 for a, b in itertools.pairwise(order))
    if max(shares.values()) <= bound:
        assert capped == shares


def test_what_is_cut_off_goes_to_the_others_in_proportion() -> None:
    assert capped_shares({"a": 0.8, "b": 0.15, "c": 0.05}, 0.5) == pytest.approx(
        {"a": 0.5, "b": 0.375, "c": 0.125}
    )
    # The second one is above the cap only when the first one's surplus is shared out.
    shares = capped_shares({"a": 0.7, "b": 0.25, "c": 0.05, "d": 0.0}, 0.4)
    assert shares == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2, "d": 0.0})


@pytest.mark.parametrize(("count", "bound"), [(1, 1.0), (2, BALANCE), (3, 0.5), (100, 0.5)])
def test_two_may_be_unequal_and_one_is_alone(count: int, bound: float) -> None:
    assert largest_share(0.5, count) == bound
    assert largest_share(0.001, 4) == 0.25


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({"a": 10**9, "b": 3, "c": 4}, {"a"}),
        ({"a": 10**9, "b": 3}, set()),
        ({"a": 10**9, "b": 3, "idle": 0}, set()),
        ({"a": 10**12, "b": 10**9, "c": 5, "d": 5}, {"a", "b"}),
        ({"a": 89, "b": 6, "c": 5}, set()),
        ({"a": 91, "b": 5, "c": 4}, {"a"}),
        ({}, set()),
    ],
)
def test_who_has_nearly_all_of_what_three_have(counts: dict[str, int], found: set[str]) -> None:
    assert outweighing(counts) == found
