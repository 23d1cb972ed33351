"""The settings of a command: defaults, then a file, then named options, then --set."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtag.common.config import RunConfig, flatten, nested, parse_setting, run_defaults
from fedtag.common.config.run_config import PARENT, completed_settings
from fedtag.common.errors import ConfigError
from fedtag.common.logs import LOGGER
from fedtag.common.wire.protocol import app_versions
from fedtag.server.run.extension import extending
from fedtag.server.tracking.run_directory import CONFIG, PLACES, RunDirectory

OWNED = ("resume", "data.sites", *PARENT)
"""Settings that a command decides upon; a file with all settings of an earlier run may hold them."""
ARGUMENTS = {
    "out": "out=",
    "data.source": "a graph",
    "data.sites": "a graph",
    **dict.fromkeys(PARENT, "start="),
    "resume": "open_run(...).resume()",
}
"""What decides in Python about settings that are no settings there."""


def gather(file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]) -> RunConfig:
    """All settings of a run.

    Args:
        file: TOML with nested tables or dotted keys, for example the config.toml of an earlier run.
        options: dotted keys; those that are None were not given.
        assignments: `key=value` each.

    Raises:
        ConfigError: with everything that is wrong, one sentence each.
    """
    return _gathered(file, options, assignments)[1]


def given_settings(
    file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]
) -> dict[str, Any]:
    """Those settings of a run that were given, in the types of their defaults; what was left unset stays so.

    Args, Raises: see `gather`.
    """
    given, config = _gathered(file, options, assignments)
    resolved = config.to_flat()
    return {key: resolved[key] for key in completed_settings(given) if key in resolved}


def extended_settings(
    parent: Path, file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]
) -> dict[str, Any]:
    """All settings of a run that extends a finished one, by dotted key.

    Args:
        parent: the directory of that run.
        file, options, assignments: see `gather`; without `rounds` it stays as long as it is, which is refused.

    Raises:
        ConfigError: with everything that is wrong; what differs and must not, with both values.
        RunError: the run cannot be extended.
    """
    given = collected(file, options, assignments)
    config = extending(RunDirectory.open(parent), given)
    return {**config.without_places().to_flat(), "out": config.out}


def _gathered(
    file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]
) -> tuple[dict[str, Any], RunConfig]:
    flat, problems = collect(file, options, assignments)
    try:
        config = resolve(flat)
    except ConfigError as error:
        problems.append(str(error))
    if problems:
        raise ConfigError("\n".join(problems))
    return flat, config


def collected(file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The dotted settings that were given, as for `gather`.

    Raises:
        ConfigError: with everything that is wrong with the assignments.
    """
    flat, problems = collect(file, options, assignments)
    if problems:
        raise ConfigError("\n".join(problems))
    return flat


def collect(
    file: Path | None, options: Mapping[str, Any], assignments: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """The dotted settings that were given, as for `gather`, and what is wrong with the assignments."""
    flat: dict[str, Any] = read_settings(file) if file is not None else {}
    flat |= {key: value for key, value in options.items() if value is not None}
    problems: list[str] = []
    for assignment in assignments:
        try:
            key, value = parse_setting(assignment)
        except ConfigError as error:
            problems.append(str(error))
            continue
        if key in OWNED:
            problems.append(f"{assignment}: {key} is set by the command; use resume=, data= or start=.")
        flat[key] = value
    return flat, problems


def further_settings(
    settings: Mapping[str, Any] | None, decided: Mapping[str, str] = ARGUMENTS
) -> dict[str, Any]:
    """The settings that a call in Python has beside its arguments, by dotted key.

    Args:
        settings: by dotted key or nested.
        decided: those that something else decides upon, and what.

    Raises:
        ConfigError: one of those is among them, or they are no mapping.
    """
    if not isinstance(settings, Mapping | None):
        raise ConfigError(f"settings={settings!r} is no mapping: give {{'train.epochs': 5}}, or tables")
    flat = flatten(settings or {})
    if owned := sorted(decided.keys() & flat.keys()):
        instead = dict.fromkeys(decided[key] for key in owned)
        raise ConfigError(
            f"settings: {', '.join(owned)} cannot be set here; give {' and '.join(instead)} instead"
        )
    return flat


def resolve(flat: Mapping[str, Any]) -> RunConfig:
    """The settings of a run from those that were given.

    Raises:
        ConfigError: with everything that is wrong, one sentence each.
    """
    problems: list[str] = []
    try:
        config = RunConfig.from_flat(flat)
    except ConfigError as error:
        problems.append(str(error))
    problems += _impossible(flat)
    if problems:
        raise ConfigError("\n".join(problems))
    return config


def read_settings(file: Path) -> dict[str, Any]:
    """The dotted settings of a TOML file, without those that belong to the run that wrote it.

    Raises:
        ConfigError: the file is missing or is no TOML.
    """
    try:
        flat = flatten(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"config={file}: {error.strerror}; name a TOML file") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"config={file} is not TOML: {error}") from error
    if (file.parent / PLACES).is_file() and file.name == CONFIG:
        flat |= RunDirectory.open(file.parent).read_places()
    if flat.get("parent.model") or flat.get("parent.run"):
        LOGGER.warning(
            "%s is of a run that went on from another: training begins anew where no start is named", file
        )
    for key in OWNED:
        flat.pop(key, None)
    own = flat.get("out")
    if isinstance(own, str) and own and Path(own).resolve() == file.parent.resolve():
        del flat["out"]
    return flat


def app_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The run configuration of an app as tables: its versions, and settings as they were given or left unset.

    Args:
        given: dotted keys; they say what the run is made of, whose settings alone the app has.

    Raises:
        ConfigError: they are no settings of a run.
    """
    specs, completed = RunConfig.from_flat(given).specs, completed_settings(given)
    return nested({**app_versions(), **run_defaults(specs), **completed})


def _impossible(flat: Mapping[str, Any]) -> list[str]:
    """What the types of the settings do not rule out but this installation does."""
    from fedtag.client.data.fractions import parse_split

    problems = []
    split = flat.get("data.split")
    if isinstance(split, str):
        try:
            parse_split(split)
        except ConfigError as error:
            problems.append(str(error))
    return problems
