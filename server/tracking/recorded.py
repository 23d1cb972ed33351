"""The settings that a run recorded, where all that it is made of is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.parts.spec import PARTS
from fedtag.common.settings.registry import NAME


def recorded_config(run: Path, flat: Mapping[str, Any]) -> RunConfig:
    """The settings of a run.

    Args:
        run: its directory.
        flat: what it recorded, by dotted key.

    Raises:
        ConfigError: something that the run is made of is not there, or a setting cannot be used.
    """
    check_there(run, flat)
    return RunConfig.from_flat(flat)


def check_there(run: Path, flat: Mapping[str, Any]) -> None:
    """Raise ConfigError where something that a run is made of is not there, with how it comes back."""
    for registry in (METHODS, BACKBONES, CONDENSERS, PARTS):
        value = flat.get(registry.key)
        names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
        for name in names:
            # What cannot be a name at all is damage.
            if NAME.fullmatch(name) and name != NONE and name not in registry:
                raise ConfigError(
                    f"{run} was made with the {registry.what} '{name}', which is not there: if it was handed over as "
                    f"an object, open the run with that in Python, fedtag.open_run({str(run)!r}, "
                    f"{registry.what.upper()}), and predict or resume from there; else install the package that "
                    "brings it"
                )
