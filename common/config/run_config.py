"""The settings of one run: shared ones, and the tables of its own method, parts, condenser and backbone.

Settings travel as Flower's run configuration: a flat table of scalars whose keys are dotted and in
kebab-case ("train.learning-rate"). The models of the tables are the single source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import PrivateAttr, ValidationError, model_validator

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.config.catalogue import (
    Scalar,
    all_settings,
    installed_tables,
    shared_settings,
    tables_of,
    unknown_key,
)
from fedtag.common.config.combinations import excluded_combinations, groups_by_default
from fedtag.common.config.forms import flatten, nested
from fedtag.common.config.places import MODELS, SOURCE, last_part
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS, PRESETS, MethodSpec
from fedtag.common.models.spec import BACKBONES
from fedtag.common.numerics.robust_rules import GROUP_MEDIAN
from fedtag.common.parts.spec import PARTS, PartSpec, part_specs
from fedtag.common.settings.defaults import UNSET, left_to_the_method
from fedtag.common.settings.lists import listed
from fedtag.common.settings.registry import Registry, Spec
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.settings.sections import DataConfig, Section

PLACES = ("out", "resume", "device", "data.sites", "tracking.trackers")
"""Settings that say where a run is written, followed and computed, not what comes of it."""

PARENT = ("parent.model", "parent.run", "parent.rounds")
"""Settings that say from which run a run goes on."""


class RunConfig(RunSettings):
    """Every setting of a run."""

    _asked: str = PrivateAttr("")

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "tables" in given:
            return given
        values, problems = gathered(flatten(given))
        if problems:
            raise ValueError("\n".join(problems))
        return values

    @model_validator(mode="after")
    def _resolve(self) -> RunConfig:
        given = self.to_flat()
        self._update(left_to_the_method(given, self.spec.defaults))
        self._update(self.spec.resolved(self))
        if given["aggregation.rule"] == "default" and groups_by_default(self):
            self._update({"aggregation.rule": GROUP_MEDIAN})
        if self.spec.traits.pooled:
            self._update({"clients": 1})
        wrong = excluded_combinations(self)
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    def _update(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            table, _, name = key.replace("-", "_").rpartition(".")
            changed = getattr(self, table).model_copy(update={name: value}) if table else value
            # A validator of a frozen model can only complete it this way.
            object.__setattr__(self, table or name, changed)
        self.__dict__.pop("flattened", None)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's; what is kept of these settings is not of the copy's."""
        other = super().model_copy(update=update, deep=deep)
        other.__dict__.pop("flattened", None)
        return other

    @property
    def spec(self) -> MethodSpec:
        """The specification of the run's method."""
        return METHODS.get(self.method)

    @property
    def part_specs(self) -> tuple[PartSpec, ...]:
        """Those of its parts, in their order."""
        return tuple(part_specs(self))

    @property
    def chosen(self) -> tuple[tuple[Registry[Any], str], ...]:
        """The names of all that the run is made of, each with where it is found."""
        return choices(self.method, self.part_names, self.condenser.name, self.model.backbone)

    @property
    def specs(self) -> tuple[Spec, ...]:
        """All that the run is made of."""
        return tuple(registry.get(name) for registry, name in self.chosen)

    @property
    def condenses(self) -> bool:
        """Whether clients train on a condensed graph, whose size is the run's ratio."""
        return self.condenser.name != NONE or self.spec.traits.condensed == "own"

    @property
    def chooses_round(self) -> bool:
        """Whether validation chooses the released round: under noise it were a query of its own, hidden it is blind."""
        return self.privacy.dp.mode == "off" and not self.privacy.hide_statistics

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> RunConfig:
        """Build from dotted keys.

        Raises:
            ConfigError: naming every wrong value and every unknown key at once.
        """
        values, problems = gathered(flatten(flat))
        try:
            if not problems:
                return cls.model_validate(values)
            # What settings mean together cannot be said where some mean nothing; all others are checked one by one.
            RunSettings.model_validate(values)
        except ValidationError as error:
            problems += map(wrong_value, error.errors())
        raise ConfigError("\n".join(problems))

    def to_nested(self) -> dict[str, Any]:
        """Tables as in config.toml."""
        own = {name: table.model_dump(by_alias=True) for name, table in self.tables.items()}
        return {**self.model_dump(by_alias=True), **own}

    @cached_property
    def flattened(self) -> Mapping[str, Scalar]:
        """Dotted keys as in Flower's run configuration, made once: each message asks for them."""
        return flatten(self.to_nested())

    def to_flat(self) -> dict[str, Scalar]:
        """The same as a dictionary of one's own."""
        return dict(self.flattened)

    def decisive(self) -> dict[str, Scalar]:
        """The settings that decide results; where they run and are written does not count."""
        return {key: value for key, value in self.flattened.items() if key not in PLACES}

    def without_places(self) -> Self:
        """The same settings without where anything lies on this machine, as they may be sent, shown and kept.

        Of data and models that are named by absolute paths the last parts of these are left.
        """
        flat, other = self.to_flat(), self.model_copy()
        named = {key: last_part(str(flat[key])) for key in (SOURCE, *MODELS)}
        other._update({**named, "out": "", "data.sites": ""})
        return other

    def of_own_data(self) -> Self:
        """The same settings for a run whose institutions read graphs of their own: they say nothing of data.

        The digest stays, by which all sides know that they were asked for the same.
        """
        other = self.model_copy()
        other._asked = self.digest()
        other._update({"data": DataConfig(source="")})
        return other

    def digest(self) -> str:
        """SHA-256 of the settings that decide results."""
        return self._asked or hashlib.sha256(json.dumps(self.decisive(), sort_keys=True).encode()).hexdigest()


def gathered(flat: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of which a `RunConfig` is made, with its own tables, and what is wrong with them.

    What is wrong is left out of the values, so that all else can still be checked.
    """
    flat, problems = _completed(flat)
    specs, wrong = _chosen(flat)
    problems += wrong
    shared, known, own = shared_settings(), all_settings(), tables_of(specs)
    values = {key: value for key, value in flat.items() if key in shared}
    given: dict[str, dict[str, Any]] = {name: {} for name in own}
    for key, value in flat.items():
        table, _, name = key.partition(".")
        if key in shared:
            continue
        if key not in known:
            problems.append(unknown_key(key, known))
        elif table in own:
            given[table][name] = value
        # Flower's table of defaults holds those of the method that it was written for.
        elif value != known[key].default:
            problems.append(
                f"setting '{key}' belongs to {table}, which this run has not: leave it out, or choose {table}"
            )
    tables: dict[str, Section] = {}
    for name, kind in own.items():
        try:
            tables[name] = kind.model_validate(given[name])
        except ValidationError as error:
            problems += [wrong_value(one, f"{name}.") for one in error.errors()]
            tables[name] = kind()
    return {**nested(values), "tables": tables}, problems


def without_foreign(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those of methods, parts, condensers and backbones that the run is not made of."""
    completed, _ = _completed(flat)
    own, foreign = tables_of(_chosen(completed)[0]), installed_tables()
    return {
        key: value
        for key, value in flat.items()
        if (table := key.partition(".")[0]) in own or table not in foreign
    }


def choices(
    method: str, parts: Iterable[str], condenser: str, backbone: str
) -> tuple[tuple[Registry[Any], str], ...]:
    """The names of what a run is made of, each with where it is found."""
    condensers = () if condenser == NONE else ((CONDENSERS, condenser),)
    return (METHODS, method), *((PARTS, part) for part in parts), *condensers, (BACKBONES, backbone)


def completed_settings(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with what a preset, the method and switches of parts add to them; nothing else is resolved."""
    return _completed(flat)[0]


def _completed(flat: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings with what a preset and the method add where nothing is given, and with parts that a switch turned on."""
    flat = dict(flat)
    try:
        listed(str(flat.get("parts", "")), "parts")
    except ConfigError as error:
        return {**flat, "parts": ""}, [str(error)]
    name = flat.get("method", shared_settings()["method"].default)
    if name in PRESETS:
        try:
            preset = PRESETS.get(name)
        except ConfigError as error:
            return flat, [str(error)]
        parts = ",".join((*preset.parts, *listed(str(flat.get("parts", "")), "parts")))
        flat = {**preset.values, **flat, "method": preset.method, "preset": name, "parts": parts}
    if flat.get("method", name) in METHODS.names and flat.get("method", name) not in METHODS.troubles:
        spec = METHODS.get(flat.get("method", name))
        defaults = spec.defaults
        if strange := sorted(defaults.keys() - shared_settings().keys()):
            package = METHODS.origin(spec.name).package
            wrong = f"method '{spec.name}' of {package} gives a default to {strange[0]}, which is no shared setting"
            return flat, [f"{wrong}: install another version of {package}"]
        flat = {**{key: value for key, value in defaults.items() if key not in UNSET}, **flat}
        # What condenses is part of what a run is made of, so that it must be known before the rest.
        if flat.get("condenser.name", NONE) == NONE and "condenser.name" in defaults:
            flat["condenser.name"] = defaults["condenser.name"]
    on = listed(str(flat.get("parts", "")), "parts")
    switched = [
        part.name
        for part in PARTS.usable().values()
        if part.switch and flat.get(f"{part.name}.{part.switch}", "off") != "off" and part.name not in on
    ]
    # What a setting of its own switches on stands nearest to the method.
    on = (*switched, *on)
    twice = [
        f"parts = {','.join(on)}: {part} stands twice, name it once" for part in set(on) if on.count(part) > 1
    ]
    return ({**flat, "parts": ",".join(on)} if on else flat), twice


def _chosen(flat: Mapping[str, Any]) -> tuple[tuple[Spec, ...], list[str]]:
    """The specifications that settings name, and what is wrong with the others."""
    shared = shared_settings()
    method, backbone = (flat.get(key, shared[key].default) for key in ("method", "model.backbone"))
    parts = listed(str(flat.get("parts", "")), "parts")
    found, problems = [], []
    for registry, name in choices(method, parts, flat.get("condenser.name", NONE), backbone):
        try:
            # What is no text is told by the check of types.
            found += [registry.get(name)] if isinstance(name, str) else []
        except ConfigError as error:
            problems.append(str(error))
    return tuple(found), problems


def wrong_value(error: Any, prefix: str = "") -> str:
    """One sentence about one fault that pydantic found."""
    key = prefix + ".".join(str(part) for part in error["loc"])
    reason = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return str(reason)
    return f"{key} = {error['input']!r}: {reason[0].lower()}{reason[1:]}."
