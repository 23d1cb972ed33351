"""The settings of a run that are not those which it would have had by itself."""

from __future__ import annotations

from collections.abc import Mapping

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError

CHOICES = ("method", "parts", "condenser.name", "model.backbone")
"""What a run is made of, which decides its other defaults."""


def changed_settings(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Keys and values that differ from the defaults of what the run is made of, and all that has none.

    Args:
        settings: of config.toml by dotted key, as text.
    """
    made_of = {key: settings[key] for key in CHOICES if settings.get(key)}
    try:
        defaults = {key: str(value) for key, value in RunConfig.from_flat(made_of).to_flat().items()}
    except ConfigError:
        # Of what is not installed the defaults are not known.
        defaults = {}
    kept = {key: value for key, value in settings.items() if value != defaults.get(key)}
    return tuple(kept.items())
