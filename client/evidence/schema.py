"""Objects of a JSON file that have exactly the expected fields."""

from __future__ import annotations

import math
from collections.abc import Mapping


def expect(record: object, fields: Mapping[str, tuple[type, ...]], what: str) -> None:
    """Raises ValueError unless `record` has these fields and no other, of these types, with finite numbers.

    Args:
        fields: the types that each may have, exactly.
        what: names the object in the message.
    """
    if not isinstance(record, dict):
        raise ValueError(f"{what} is a {type(record).__name__}, not an object")
    if record.keys() != fields.keys():
        odd = ", ".join(sorted(record.keys() ^ fields.keys()))
        raise ValueError(f"{what} has missing or unknown keys: {odd}")
    for name, types in fields.items():
        value = record[name]
        if type(value) not in types:
            raise ValueError(f"{name} of {what} is {value!r:.60}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} of {what} is not finite")
