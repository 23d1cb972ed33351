"""What is installed, and the settings of a run, as tables; specifications that are handed over as objects."""

from __future__ import annotations

import pandas as pd

from fedtag.common.config import RunConfig, default_settings, setting_descriptions
from fedtag.common.errors import ConfigError
from fedtag.common.settings.registry import Spec
from fedtag.runs.catalogue import ALL, entries


def methods() -> pd.DataFrame:
    """All methods, presets, parts, condensers and backbones that are installed, a row each.

    Returns:
        columns kind, title, source, package, traits; the index are the names.

    Example:
        >>> import fedtag
        >>> sorted(set(fedtag.methods()["kind"]))
        ['backbone', 'condenser', 'method', 'part', 'preset']
    """
    rows = [
        (one.name, one.kind, one.title, one.source, one.origin.package, ", ".join(one.traits))
        for one in entries()
    ]
    columns = ["name", "kind", "title", "source", "package", "traits"]
    return pd.DataFrame(rows, columns=columns).set_index("name")


def settings(method: str | None = None) -> pd.DataFrame:
    """The settings of a run, a row each.

    Args:
        method: those of a run of a method or preset, with the values that it has where nothing is given; None: all
            that is installed, with defaults that may be left to the method.

    Returns:
        columns value and meaning; the index are the dotted keys.

    Raises:
        ConfigError: no method is called so.

    Example:
        >>> import fedtag
        >>> fedtag.settings().loc["model.hidden", "value"]
        64
    """
    meanings = setting_descriptions()
    values = default_settings() if method is None else RunConfig.from_flat({"method": method}).to_flat()
    rows = [(key, value, meanings.get(key, "")) for key, value in values.items()]
    return pd.DataFrame(rows, columns=["setting", "value", "meaning"]).set_index("setting")


def register(spec: Spec) -> str:
    """Take a method, preset, part, condenser or backbone as an object; it lives as long as this process.

    One of the same name that was taken before is replaced, as a cell of a notebook is run again. What is for more than
    one process belongs into a package with an entry point.

    Returns:
        its name, as settings have it.

    Raises:
        ConfigError: an installed package brings something of this name, or it is for another interface.
    """
    registry = next((one for one in ALL if isinstance(spec, one.kind)), None)
    if registry is None:
        kinds = ", ".join(one.kind.__name__ for one in ALL)
        raise ConfigError(f"{type(spec).__name__} is no specification: use one of {kinds}")
    registry.add(spec)
    return spec.name
