"""Settings that say where something lies on one machine, which is no other machine's business."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtag.common.errors import ConfigError

SEPARATOR = ";"
"""Between the sources of several clients' data."""
SOURCE = "data.source"
MODELS = ("text.encoder", "summaries.model")
"""What may name folders of models."""
REMEDIES = {
    **dict.fromkeys(
        MODELS,
        "give the name of its folder, and let each site's --node-config say under `models` where that lies",
    ),
    SOURCE: "leave it out, since sites name their data in --node-config; `fedtag simulate` divides a folder",
    "out": "give a name, which is a folder of runs/ under FEDTAG_HOME on the server",
}


def is_place(name: str) -> bool:
    """Whether a name says where something lies on one machine, or leads out of the folder in which it is looked up."""
    return Path(name).is_absolute() or name.startswith("~") or ".." in Path(name).parts


def parts(value: str) -> list[str]:
    """What a setting names, several sources one by one."""
    return [one.strip() for one in value.split(SEPARATOR)]


def absolute_places(flat: Mapping[str, Any]) -> dict[str, str]:
    """The settings that name absolute paths, by dotted key."""
    texts = {key: value for key, value in flat.items() if isinstance(value, str)}
    return {key: value for key, value in texts.items() if any(map(is_place, parts(value)))}


def last_part(value: str) -> str:
    """A setting with the last part of each absolute path in place of the path."""
    return SEPARATOR.join(Path(one).name if is_place(one) else one for one in parts(value))


def check_travels(flat: Mapping[str, Any]) -> None:
    """Raise ConfigError where settings that go to all institutions name places of this machine, or need it."""
    problems = [
        f"{key} = {value} is a place on this machine, and settings go to every institution: "
        f"{REMEDIES.get(key, 'leave it out')}"
        for key, value in sorted(absolute_places(flat).items())
    ]
    if problems:
        raise ConfigError("\n".join(problems))
    check_apart(flat)


def check_apart(flat: Mapping[str, Any]) -> None:
    """Raise ConfigError where settings need all clients in one process, and these are to have their own."""
    engine = flat.get("engine", "separate")
    if engine != "separate":
        raise ConfigError(
            f"engine = {engine} trains all clients in one process, and here each has its own: leave it out; `fedtag "
            "simulate` and `fedtag compare` have it"
        )
