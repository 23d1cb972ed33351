"""All that is built in, with settings that fit a few nodes, and variations that have a run of their own."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from fedtag.common.config import RunConfig
from fedtag.common.settings.registry import FEDTAG, Registry
from fedtag.testing.suite import CHECKS, RUNS, choosing

VARIATIONS = Path(__file__).parent / "variations"


@dataclass(frozen=True, eq=False)
class Case:
    """Of what the contract is asked: the settings of a subject, under the name by which a person calls it."""

    what: str
    settings: Mapping[str, Any]


def table(name: str) -> dict[str, Any]:
    """What tests know of something built in, by its name; nothing of most."""
    path = VARIATIONS / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def settings_of(registry: Registry[Any], name: str, further: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that choose something, and make all that its runs are made of fit a few nodes."""
    own = choosing(registry, name, {**table(name).get("small", {}), **further})
    small: dict[str, Any] = {}
    for _, other in RunConfig.from_flat(own).chosen:
        small |= table(other).get("small", {})
    return {**small, **own}


def cases(*registries: Registry[Any]) -> list[ParameterSet]:
    """A subject and a check each: every check of its kind for what is built in, those of any run for variations."""
    found = []
    for registry in registries:
        for name in registry.names:
            if registry.origin(name).package == FEDTAG:
                found += [*of_one(registry, name)]
    return found


def of_one(registry: Registry[Any], name: str) -> Iterator[ParameterSet]:
    """Those of something and of its variations."""
    own = table(name)
    plain = {"name": "", "settings": {}, "slow": own.get("slow", False)}
    for one in (plain, *own.get("variation", ())):
        what = ", ".join(filter(None, (name, one["name"])))
        case = Case(f"{registry.what} {what}", settings_of(registry, name, one["settings"]))
        marks = [pytest.mark.slow] if one.get("slow") else []
        for check in CHECKS[registry] if one is plain else RUNS:
            yield pytest.param(case, check, marks=marks, id=f"{what}: {check.__name__}")
