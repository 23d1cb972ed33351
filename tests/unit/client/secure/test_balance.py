from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedtag.client.secure.balance import check_balance, checked_weights
from fedtag.common.errors import ProtocolError

MEMBERS = ("a", "b", "c", "d")


@given(st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4))
def test_weights_pass_exactly_if_none_dominates(raw: list[float]) -> None:
    weights = {name: value / sum(raw) for name, value in zip(MEMBERS, raw, strict=True)}
    # The bound has room for rounding.
    assume(abs(max(weights.values()) - 0.5) > 1e-6)
    if max(weights.values()) <= 0.5:
        assert checked_weights(weights, MEMBERS, 0.5) == weights
    else:
        with pytest.raises(ProtocolError, match=r"at most 0\.5 is|at most 0\.9 is"):
            checked_weights(weights, MEMBERS, 0.5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (None, "must be a table with every member"),
        ({"a": 0.5, "b": 0.5, "c": 0.0}, "every member"),
        ({"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0, "e": 0.0}, "nobody else"),
        ({"a": 0.5, "b": 0.6, "c": 0.0, "d": -0.1}, "the weight -0.1 of d must be a number from 0 to 1"),
        ({"a": math.nan, "b": 0.5, "c": 0.5, "d": 0.0}, "the weight nan of a"),
        ({"a": math.inf, "b": 0.5, "c": 0.5, "d": 0.0}, "the weight inf of a"),
        ({"a": "1", "b": 0.5, "c": 0.5, "d": 0.0}, "the weight '1' of a"),
        ({"a": True, "b": 0.0, "c": 0.0, "d": 0.0}, "the weight True of a"),
        ({"a": 10**400, "b": 0.0, "c": 0.0, "d": 0.0}, "must be a number from 0 to 1"),
        ({"a": 0.5, "b": 0.4, "c": 0.0, "d": 0.0}, "the weights sum to 0.9: they must sum to 1"),
        ({"a": 0.95, "b": 0.05, "c": 0.0, "d": 0.0}, "a has 0.950 of the weight of 4 members"),
    ],
)
def test_other_weights_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        checked_weights(weights, MEMBERS, 0.9)


def test_one_of_two_members_may_not_stand_alone_either() -> None:
    assert checked_weights({"a": 0.9, "b": 0.1}, ("a", "b"), 0.9) == {"a": 0.9, "b": 0.1}
    with pytest.raises(ProtocolError, match=r"a has 1\.000 of the weight of 2 members"):
        checked_weights({"a": 1, "b": 0}, ("a", "b"), 0.9)


def test_dropouts_may_not_leave_one_weight_alone() -> None:
    weights = {"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}
    check_balance(weights, MEMBERS)
    check_balance(weights, ("c", "d"))  # nothing but zeros is summed
    with pytest.raises(ProtocolError, match=r"a has 1\.000 of the weight of 3 members"):
        check_balance(weights, ("a", "c", "d"))
