"""The rules of a site's policy: a file of its own machine, which nothing that comes from outside can change."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import time
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator, model_validator

from fedtag.client.policy.faults import checked_names, checked_settings, fault
from fedtag.client.site.retention import KEEP, Retention
from fedtag.common.errors import ConfigError
from fedtag.common.settings.sections import Positive, Section

Names = Annotated[tuple[str, ...], Field(strict=False)]
Value = bool | int | float | str
Amount = Annotated[int, Field(ge=1)]


class Bound(Section):
    """What one setting of a run may be."""

    min: float | None = None
    max: float | None = None
    one_of: Annotated[tuple[Value, ...], Field(strict=False, min_length=1)] | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.min is None and self.max is None and self.one_of is None:
            raise ValueError("says nothing: give min, max or one-of")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min = {self.min:g} is above max = {self.max:g}")
        return self


class Limits(Section):
    """The most that may leave, in MiB."""

    exchange_mb: Positive | None = None
    run_mb: Positive | None = None


class Budget(Section):
    """The most of all runs together."""

    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    updates: Amount | None = None
    mb: Positive | None = None


class Hours(Section):
    """When work may begin, by a clock on the wall."""

    timezone: str
    spans: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, OSError, ValueError):
            raise ValueError(
                "is no time zone that this machine knows: write one such as Europe/Berlin or UTC"
            ) from None
        return value

    @field_validator("spans")
    @classmethod
    def _times(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for span in value:
            begin, end = span_of(span)
            if begin == end:
                raise ValueError(
                    f"holds '{span}', which is no time or all of it: leave hours out for all day"
                )
        return value


class Policy(Section):
    """What a site allows; a rule that is absent allows everything."""

    folder: str | None = None
    approval: Literal["off", "first", "every"] = "off"
    participants: Amount | None = None
    methods: Names | None = None
    parts: Names | None = None
    protocols: Annotated[tuple[int, ...], Field(strict=False)] | None = None
    records: Names | None = None
    settings: Mapping[str, Bound] = Field({})
    limits: Limits = Limits()
    budget: Budget = Budget()
    hours: Hours | None = None
    retention: Retention = KEEP
    path: Path = Field(Path(), exclude=True)

    @model_validator(mode="after")
    def _installed(self) -> Self:
        checked_names(self.methods, self.parts, self.records)
        checked_settings(self.settings)
        return self

    @model_validator(mode="after")
    def _kept(self) -> Self:
        if self.folder is None and self.keeps:
            raise ValueError(
                "approval, limits.run-mb and budget are about what was before: name in folder where that is kept, a "
                "folder that outlives this installation and its workspace"
            )
        return self

    @property
    def keeps(self) -> bool:
        """Whether any rule is about what was before."""
        budget = self.budget
        asked = (self.limits.run_mb, budget.epsilon, budget.updates, budget.mb)
        return self.approval != "off" or any(one is not None for one in asked)

    @cached_property
    def place(self) -> Path | None:
        """The folder of what was approved and spent; a relative one lies beside the policy."""
        return None if self.folder is None else self.path.parent / Path(self.folder).expanduser()


def read_policy(path: Path) -> Policy:
    """The policy in a file.

    Raises:
        ConfigError: it cannot be read, or is not one; with everything that is wrong, a sentence each.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"policy {path}: {error.strerror}; correct policy in --node-config") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"policy {path} is no TOML: {error}") from error
    if "path" in content:
        raise ConfigError(f"policy {path}: unknown key 'path': leave it out")
    if isinstance(content.get("settings"), dict):
        content["settings"] = _dotted(content["settings"])
    try:
        policy = Policy.model_validate({**content, "path": path})
    except ValidationError as error:
        raise ConfigError(
            "\n".join(f"policy {path}: {fault(one, Policy)}" for one in error.errors())
        ) from None
    if policy.place is not None and not policy.place.is_dir():
        # Made anew, it would be a budget of which nothing is spent.
        raise ConfigError(
            f"policy {path}: the folder {policy.place} is not there: mount it or correct folder; at the very first "
            "start, make it by hand"
        )
    return policy


def _dotted(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Bounds by dotted key, whether the keys stand in quotation marks or not."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values())
        found |= _dotted(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def span_of(span: str) -> tuple[time, time]:
    """Begin and end of `20:00-06:00`; one that ends before it begins goes over midnight.

    Raises:
        ValueError: it is written otherwise.
    """
    begin, separator, end = span.partition("-")
    try:
        if not separator:
            raise ValueError
        return time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())
    except ValueError:
        raise ValueError(f"holds '{span}': write spans such as 20:00-06:00") from None


def allowed_at(hours: Hours, moment: Any) -> bool:
    """Whether work may begin at a moment, a datetime with a time zone."""
    local = moment.astimezone(ZoneInfo(hours.timezone)).time()
    return any(
        begin <= local < end if begin < end else local >= begin or local < end
        for begin, end in map(span_of, hours.spans)
    )
