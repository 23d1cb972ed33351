"""How large training, validation and test nodes are to be, as a setting says it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedtag.common.errors import ConfigError

Fractions = tuple[float, float, float]


def parse_split(text: str) -> Fractions | None:
    """The fractions of "0.6,0.2,0.2", or None for "given": the split that the data come with.

    Raises:
        ConfigError: for anything else.
    """
    if text.strip() == "given":
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if len(values) != 3:
        raise ConfigError(f"split is {text!r}; write given, or three fractions such as 0.6,0.2,0.2.")
    return checked_fractions(values)


def checked_fractions(fractions: Sequence[float]) -> Fractions:
    """Training, validation and test, as they were given.

    Raises:
        ConfigError: one is out of its range, or their sum is.
    """
    train, val, test = fractions
    finite = all(math.isfinite(value) for value in fractions)
    if not finite or train <= 0 or val < 0 or test < 0 or train + val + test > 1 + 1e-9:
        raise ConfigError(
            f"split is {','.join(f'{value:g}' for value in fractions)}; the training fraction must be above 0, "
            "the others at least 0, and their sum at most 1."
        )
    return train, val, test
