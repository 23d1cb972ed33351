"""All settings that this installation knows: shared ones, and the tables of what is installed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from pydantic.fields import FieldInfo

from fedtag.common.condensers.spec import CONDENSERS
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.parts.spec import PARTS
from fedtag.common.settings.registry import Spec
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.settings.sections import Section
from fedtag.common.wording.suggestion import did_you_mean

Scalar = bool | int | float | str

REGISTRIES = (METHODS, PARTS, CONDENSERS, BACKBONES)


def tables_of(specs: Iterable[Spec]) -> dict[str, type[Section]]:
    """The own tables of some specifications, by their names."""
    return {spec.name: spec.settings for spec in specs if spec.settings is not None}


def installed_tables() -> dict[str, type[Section]]:
    """The own tables of everything that is installed and usable."""
    return tables_of(spec for registry in REGISTRIES for spec in registry.usable().values())


@cache
def settings_in(section: type[Section], prefix: str = "") -> Mapping[str, FieldInfo]:
    """The settings of a table and those below it by dotted key, in the order in which they are declared."""
    found: dict[str, FieldInfo] = {}
    for name, field in section.model_fields.items():
        key = f"{prefix}{name.replace('_', '-')}"
        if isinstance(field.default, Section):
            found |= settings_in(type(field.default), f"{key}.")
        elif not field.exclude:
            found[key] = field
    return MappingProxyType(found)


def shared_settings() -> Mapping[str, FieldInfo]:
    """Those of every run, by dotted key."""
    return settings_in(RunSettings)


def all_settings() -> dict[str, FieldInfo]:
    """Shared settings and those of everything that is installed, by dotted key."""
    found = dict(shared_settings())
    for name, section in installed_tables().items():
        found |= settings_in(section, f"{name}.")
    return found


def default_settings() -> dict[str, Scalar]:
    """Dotted keys of all settings and their unresolved defaults."""
    return {key: field.default for key, field in all_settings().items()}


def setting_descriptions() -> dict[str, str]:
    """What each dotted key means."""
    return {key: field.description or "" for key, field in all_settings().items()}


def run_defaults(specs: tuple[Spec, ...]) -> dict[str, Scalar]:
    """Dotted keys and unresolved defaults of a run that is made of some specifications."""
    found = dict(shared_settings())
    for name, section in tables_of(specs).items():
        found |= settings_in(section, f"{name}.")
    return {key: field.default for key, field in found.items()}


def parse_setting(assignment: str) -> tuple[str, Any]:
    """A `key=value` from the command line, its value converted to the type of the key's default.

    Raises:
        ConfigError: without an equals sign, for an unknown key, or for a value of another type.
    """
    key, separator, text = assignment.partition("=")
    if not separator:
        raise ConfigError(f"{assignment}: write key=value, for example train.epochs=5")
    key = key.strip()
    known = all_settings()
    if key not in known:
        raise ConfigError(unknown_key(key, known))
    text = text.strip()
    words = {word for kind in get_args(known[key].annotation) for word in get_args(kind)}
    return key, text if text in words else _convert(key, text, known[key].default)


def _convert(key: str, text: str, default: Scalar) -> Scalar:
    if isinstance(default, bool):
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise ConfigError(f"{key}={text}: write true or false")
    for kind in (int, float):
        if isinstance(default, kind):
            try:
                return kind(text)
            except ValueError:
                wanted = "a whole number" if kind is int else "a number"
                raise ConfigError(f"{key}={text}: write {wanted}") from None
    return text


RENAMED = {"privacy.largest-weight": "aggregation.max-share"}
"""Shared settings of earlier releases, and what stands in their place."""


def unknown_key(key: str, known: Mapping[str, Any]) -> str:
    """A sentence about a key that nothing knows."""
    table, _, name = key.partition(".")
    if key in RENAMED:
        return f"setting '{key}' is now {RENAMED[key]}: write that."
    for registry in REGISTRIES:
        for spec in registry.usable().values():
            if key in spec.renamed:
                return f"setting '{key}' is now {spec.renamed[key]}: write that."
            if table in spec.renamed:
                return f"setting '{key}' is now {spec.renamed[table]}.{name}: write that."
        if table in registry and table in registry.troubles:
            return f"setting '{key}': {registry.troubles[table]}."
    return f"unknown setting '{key}': {did_you_mean(key, known, 'see `fedtag settings` for all keys.')}"
