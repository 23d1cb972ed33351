from __future__ import annotations

from typing import Any

import pytest
import torch

from fedtag.common.errors import WireError
from fedtag.common.parts.neighbour_exchange.messages import BYTES, Part, packed, unpacked
from fedtag.common.parts.neighbour_exchange.names import PARTS
from fedtag.common.wire.records import Content

SLOT = "ab" * 32
TWO = (Part("b", SLOT, 2, b"12345"), Part("c", "cd" * 32, 1, b""))


def test_parts_come_back_as_they_were() -> None:
    assert unpacked(packed(TWO)) == TWO
    assert packed(()) == Content()
    assert unpacked(Content()) == ()


@pytest.mark.parametrize(
    "table",
    [
        "text",
        [["b", SLOT, 2]],
        [["b", SLOT, 0, 5]],
        [["b", SLOT, True, 5]],
        [["b", "AB" * 32, 2, 5]],
        [["b", SLOT[:-1], 2, 5]],
        [[1, SLOT, 2, 5]],
        [["b", SLOT, 2, -5], ["c", SLOT, 2, 10]],
        [["b", SLOT, 2, 4]],
        [["b", SLOT, 2, 2], ["b", SLOT, 3, 3]],
    ],
)
def test_what_is_no_table_of_parts_is_refused(table: Any) -> None:
    with pytest.raises(WireError, match="part"):
        unpacked(Content({BYTES: torch.zeros(5, dtype=torch.uint8)}, {PARTS: table}))


def test_bytes_are_bytes() -> None:
    with pytest.raises(WireError, match="row of bytes"):
        unpacked(Content({BYTES: torch.zeros(5)}, {PARTS: [["b", SLOT, 2, 5]]}))
