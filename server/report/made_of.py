"""What a run is made of, as far as this machine has it, and the sections that this brings to the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS, MethodSpec
from fedtag.common.parts.spec import PARTS, PartSpec
from fedtag.common.settings.registry import Registry
from fedtag.server.pages.section import Recorded, ReportSection, Sections
from fedtag.server.tracking.model_card import setting


@dataclass(frozen=True)
class MadeOf:
    """The method and the parts of a run.

    Args:
        method: None where it is not installed, or nobody knows it.
        parts: those that are installed.
        missing: why what the others can tell is left out, a sentence each.
    """

    method: MethodSpec | None
    parts: tuple[PartSpec, ...]
    missing: tuple[str, ...]


def made_of(config: Mapping[str, Any], method: str) -> MadeOf:
    """What a run's settings name.

    Args:
        config: config.toml, which may be empty.
        method: of the run; empty where nobody knows it.
    """
    missing: list[str] = []

    def found(registry: Registry[Any], name: str) -> list[Any]:
        try:
            return [registry.get(name)]
        except ConfigError as error:
            missing.append(f"What only the {registry.what} {name} can tell is left out: {error}.")
            return []

    names = [part.strip() for part in str(setting(config, "parts", "")).split(",")]
    methods = found(METHODS, method) if method else []
    parts = tuple(spec for name in names if name for spec in found(PARTS, name))
    return MadeOf(next(iter(methods), None), parts, tuple(missing))


def own_sections(made: MadeOf, recorded: Recorded) -> tuple[ReportSection, ...]:
    """The sections of a run's method, then of its parts.

    Raises:
        RunError: a file of the run is damaged.
        ConfigError: what an installed specification names cannot be imported.
    """
    sections: list[ReportSection] = []
    own: list[tuple[Registry[Any], Any]] = [(METHODS, made.method), *((PARTS, part) for part in made.parts)]
    for registry, spec in own:
        if spec is not None and spec.report:
            report: Sections = registry.resolved(spec, spec.report)
            sections += report(recorded)
    return tuple(sections)
