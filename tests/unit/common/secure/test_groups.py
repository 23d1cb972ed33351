from __future__ import annotations

import os
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.groups import drawn_groups, opened_groups, parsed_groups, shown_by

NAMES = tuple("abcdefghi")
THREE = (("a", "b", "c"), ("d", "e", "f"), ("g", "h", "i"))
EQUAL = dict.fromkeys(NAMES, 1 / 9)


@given(st.integers(0, 40), st.binary(min_size=4, max_size=4))
def test_groups_are_a_partition_of_three_and_more(count: int, salt: bytes) -> None:
    draws = {f"site-{place}": salt + place.to_bytes(2) for place in range(count)}
    groups = drawn_groups(draws)
    names = sorted(name for group in groups for name in group)
    assert names == (sorted(draws) if count >= 3 else [])
    assert len(groups) == count // 3
    assert all(3 <= len(group) <= 5 for group in groups)
    assert groups == drawn_groups(dict(reversed(draws.items())))


def test_every_part_of_the_seed_moves_the_groups() -> None:
    draws = {name: os.urandom(16) for name in NAMES}
    seen = {drawn_groups({**draws, "a": bytes([k]) * 16}) for k in range(20)}
    assert len(seen) > 10
    many = [{**draws, "c": k.to_bytes(16)} for k in range(2000)]
    together = sum(any({"a", "b"} <= set(group) for group in drawn_groups(one)) for one in many)
    # In groups of three of nine, two are together in a quarter of the draws.
    assert abs(together / 2000 - 0.25) < 0.04


def rank_shows(sums: list[tuple[str, ...]]) -> bool:
    """By ranks of matrices, an oracle: whether some e_i or e_i − e_j is a combination of the sums."""
    names = sorted({name for one in sums for name in one})
    rows = np.array([[float(name in one) for name in names] for one in sums])
    rank = np.linalg.matrix_rank(rows)
    targets = list(np.eye(len(names))) + [
        np.eye(len(names))[i] - np.eye(len(names))[j] for i, j in combinations(range(len(names)), 2)
    ]
    return any(np.linalg.matrix_rank(np.vstack([rows, target])) == rank for target in targets)


@given(
    st.lists(
        st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6, unique=True), min_size=1, max_size=5
    )
)
def test_who_is_given_away_is_found_as_by_ranks(drawn: list[list[str]]) -> None:
    sums = [tuple(sorted(one)) for one in drawn]
    assert bool(shown_by(sums)) == rank_shows(sums)


@pytest.mark.parametrize(
    ("sums", "shown"),
    [
        ([], ()),
        (list(THREE), ()),
        ([*THREE, THREE[0]], ()),
        ([("a", "b", "c", "d"), ("a", "b", "c")], ("d",)),
        ([("a", "b", "c"), ("a", "b", "d")], ("c", "d")),
        ([("a", "b", "c", "d"), ("c", "d", "e", "f"), ("a", "b", "e", "f", "g")], ()),
        ([("a", "b", "c"), ("c", "d", "e"), ("a", "b", "d", "e")], ("c",)),
        ([("a",)], ("a",)),
        ([("a", "b")], ()),
    ],
)
def test_whom_sums_give_away(sums: list[tuple[str, ...]], shown: tuple[str, ...]) -> None:
    assert shown_by(sums) == shown


def test_a_group_that_is_too_small_or_bare_or_shows_somebody_is_left_out() -> None:
    assert opened_groups(THREE, NAMES, (), EQUAL) == THREE
    assert opened_groups(THREE, set(NAMES) - {"b"}, (), EQUAL) == THREE[1:]
    four = (("a", "b", "c", "d"), ("e", "f", "g"))
    assert opened_groups(four, set("abcefg"), (), EQUAL) == (("a", "b", "c"), ("e", "f", "g"))
    assert opened_groups(four, set("abcefg"), (four[0],), EQUAL) == (("e", "f", "g"),)
    assert opened_groups(four, set("abcdefg"), (("a", "b", "c"),), EQUAL) == (("e", "f", "g"),)
    assert opened_groups(THREE, NAMES, (), {**EQUAL, "a": 0.0, "b": 0.0}) == THREE[1:]
    assert opened_groups(THREE, NAMES, (), {**EQUAL, "a": 0.0, "b": 0.0, "c": 0.0}) == THREE[1:]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "abc",
        ["abc"],
        [["a", "b"]],
        [["a", "b", "c"], ["c", "d", "e"]],
        [["a", "b", 5]],
        [["a", "a", "b"]],
    ],
)
def test_other_groups_are_refused(value: object) -> None:
    with pytest.raises(ProtocolError, match=r"groups must be lists|every group must|is no name of a member"):
        parsed_groups(value)
    assert parsed_groups([["c", "b", "a"]]) == (("a", "b", "c"),)
    assert parsed_groups([]) == ()
