"""Settings in TOML's own types."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from fedtag.common.errors import RunError


def toml_table(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """A mapping in TOML's own types, without the settings that are None."""
    return {
        str(key): toml_value(value, f"{prefix}{key}") for key, value in settings.items() if value is not None
    }


def toml_value(value: object, name: str) -> Any:
    """A value in TOML's own types.

    Raises:
        RunError: TOML cannot hold it.
    """
    if isinstance(value, Enum):
        return toml_value(value.value, name)
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return toml_table(value, f"{name}.")
    if isinstance(value, list | tuple):
        return [toml_value(entry, name) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(toml_value(entry, name) for entry in value)
    raise RunError(
        f"setting {name} is a {type(value).__name__}, which TOML lacks; pass text, numbers, lists or tables"
    )
