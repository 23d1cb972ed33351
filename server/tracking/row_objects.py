"""Rows of a run directory as the JSON objects of its files, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from numbers import Integral, Real
from typing import Any

from fedtag.common.errors import RunError
from fedtag.server.tracking.rows import Row, RowType

COLUMNS = "columns"


def row_to_object(row: Row) -> dict[str, Any]:
    """The JSON object of a row, without NaN or infinity.

    A field that may be empty becomes None where its value is not finite.

    Raises:
        RunError: a field that must have a value is not finite, or has a type that JSON lacks.
    """
    record: dict[str, Any] = {}
    for item in fields(row):
        value = plain(getattr(row, item.name), item.name)
        missing = value is None and not may_be_empty(item)
        if isinstance(value, dict) and not entries_may_be_empty(item):
            missing = None in value.values()
        if missing:
            raise RunError(
                f"{item.name} of a {type(row).__name__} is not finite; only a finite number can be kept"
            )
        record[item.name] = value
    return {**record.pop(COLUMNS, {}), **record}


def object_to_row(kind: type[RowType], record: Mapping[str, Any]) -> RowType:
    """The row of a JSON object; keys that this version does not know are columns of a method, or ignored.

    Raises:
        RunError: a key without a default is missing.
    """
    names = {item.name for item in fields(kind)}
    known = {key: value for key, value in record.items() if key in names}
    if COLUMNS in names:
        known[COLUMNS] = {key: value for key, value in record.items() if key not in names}
    try:
        return kind(**known)
    except TypeError as error:
        raise RunError(f"an object is no {kind.__name__}: {error}") from error


def may_be_empty(item: Field[Any]) -> bool:
    """Whether None is a value of the field; annotations are strings where rows are defined."""
    return str(item.type).endswith("| None")


def entries_may_be_empty(item: Field[Any]) -> bool:
    """Whether None is a value of the entries of a field that holds a mapping."""
    return "| None]" in str(item.type) or ", Any]" in str(item.type)


def plain(value: object, name: str) -> Any:
    """The value in JSON's own types; numbers that are not finite become None."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry, f"{name}.{key}") for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [plain(entry, name) for entry in value]
    raise RunError(
        f"{name} is a {type(value).__name__}, which JSON lacks; pass a Python number, text, list or dict"
    )
