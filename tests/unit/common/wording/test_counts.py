"""Counts in words."""

from __future__ import annotations

import pytest

from fedtag.common.wording.counts import plural


@pytest.mark.parametrize(
    ("number", "word", "said"),
    [
        (0, "node", "0 nodes"),
        (1, "node", "1 node"),
        (2708, "node", "2,708 nodes"),
        (1, "class", "1 class"),
        (7, "class", "7 classes"),
        (3, "reply", "3 replies"),
    ],
)
def test_one_is_no_plural(number: int, word: str, said: str) -> None:
    assert plural(number, word) == said
