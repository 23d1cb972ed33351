"""Signs of numbers."""

from __future__ import annotations

import pytest

from fedtag.common.wording.signs import signed


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.0, 2, "0.00"), (-0.001, 2, "0.00"), (1.23, 2, "+1.23"), (-50, 2, "−50.00"), (-0.0504, 3, "−0.050")],
)
def test_signs(value: float, digits: int, text: str) -> None:
    assert signed(value, digits) == text
