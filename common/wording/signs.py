"""Numbers whose sign matters, as differences are."""

from __future__ import annotations


def signed(value: float, digits: int) -> str:
    """A number with so many decimals and its sign, a minus and no hyphen; what rounds to zero has none."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "−") if float(text) else text[1:]
