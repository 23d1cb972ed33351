"""Settings as nested tables and as one table of dotted keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import ConfigError


def flatten(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one table of dotted keys, with values in Python's own types.

    Raises:
        ConfigError: a key stands twice, once as a table and once dotted, so that one of them would be lost.
    """
    flat: dict[str, Any] = {}
    for key, value in tables.items():
        inner = (
            flatten(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {f"{prefix}{key}": plain(value)}
        )
        twice = sorted(flat.keys() & inner.keys())
        if twice:
            raise ConfigError(f"setting '{twice[0]}' stands twice, dotted and in a table: keep one of them")
        flat |= inner
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested tables, the inverse of `flatten`."""
    tables: dict[str, Any] = {}
    for key, value in flat.items():
        *sections, name = key.split(".")
        table = tables
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return tables


def plain(value: Any) -> Any:
    """A number of NumPy or PyTorch as the Python number that it is, a path as text; all else as it is."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value.item() if getattr(value, "ndim", None) == 0 else value
