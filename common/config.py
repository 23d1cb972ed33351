"""Every setting of a run, with its default, its range and its meaning.

Settings travel as Flower's run configuration: a flat table of scalars whose keys are dotted and in
kebab-case ("train.learning-rate"). The models here are the single source; `pyproject.toml` repeats the
defaults, because Flower only accepts overrides of keys that it finds there, and a test keeps both equal.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from fedtag.common.errors import ConfigError
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.settings.combinations import excluded_combinations
from fedtag.common.settings.defaults import left_to_the_method
from fedtag.common.settings.methods import CondenserConfig, DanceConfig, FedC4Config, SummariesConfig
from fedtag.common.settings.privacy import PrivacyConfig
from fedtag.common.settings.sections import (
    AggregationConfig,
    Count,
    DataConfig,
    EvaluationConfig,
    ExchangeConfig,
    ModelConfig,
    Section,
    TextConfig,
    TrainConfig,
)

Scalar = bool | int | float | str

# The one client of these holds the whole graph, cross-client edges included.
POOLED_METHODS = frozenset({"centralised"})


class RunConfig(Section):
    """Every setting of a run."""

    method: str = Field("dance", description="isolated, centralised, fedavg, dance, fedc4, da_dfgas, fedgc")
    rounds: Count = Field(100, description="rounds of training")
    clients: Count = Field(5, description="simulated clients, or clients to wait for")
    ratio: Annotated[float, Field(gt=0, le=1)] = Field(0.08, description="condensed nodes / nodes")
    seed: Annotated[int, Field(ge=0)] = Field(0, description="of every random draw")
    out: str = Field("", description="run directory; empty: a new one under runs/ or FEDTAG_HOME")
    resume: bool = Field(False, description="go on from the checkpoint in the run directory")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:0, ...; a site's own setting wins")
    data: DataConfig = DataConfig()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    aggregation: AggregationConfig = AggregationConfig()
    privacy: PrivacyConfig = PrivacyConfig()
    exchange: ExchangeConfig = ExchangeConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    dance: DanceConfig = DanceConfig()
    condenser: CondenserConfig = CondenserConfig()
    fedc4: FedC4Config = FedC4Config()
    dadfgas: DaDfgasConfig = DaDfgasConfig()
    fedgc: FedGCConfig = FedGCConfig()
    summaries: SummariesConfig = SummariesConfig()

    @model_validator(mode="after")
    def _resolve(self) -> RunConfig:
        if not self.method.isidentifier():
            raise ValueError(
                f"method '{self.method}' is not a name; use isolated, centralised, fedavg, dance, fedc4, da_dfgas or "
                "fedgc"
            )
        self._set(
            **{
                section: one.model_copy(update=left_to_the_method(self.method, section, vars(one)))
                for section, one in (
                    ("train", self.train),
                    ("aggregation", self.aggregation),
                    ("condenser", self.condenser),
                )
            }
        )
        if self.method == "da_dfgas" and self.dadfgas.adaptive and not self.train.extra_epochs:
            self._set(train=self.train.model_copy(update={"extra_epochs": self.train.epochs}))
        if self.method in POOLED_METHODS:
            self._set(clients=1)
        wrong = excluded_combinations(self)
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    def _set(self, **values: Any) -> None:
        # A validator of a frozen model can only complete it this way.
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> RunConfig:
        """Build from dotted keys.

        Raises:
            ConfigError: naming every wrong value and every unknown key at once.
        """
        known = default_settings()
        unknown = [_unknown_key(key, known) for key in flat if key not in known]
        nested: dict[str, Any] = {}
        for key, value in flat.items():
            if key in known:
                *sections, name = key.split(".")
                table = nested
                for section in sections:
                    table = table.setdefault(section, {})
                table[name] = value
        try:
            config = cls.model_validate(nested)
        except ValidationError as error:
            raise ConfigError("\n".join([*unknown, *map(_wrong_value, error.errors())])) from None
        if unknown:
            raise ConfigError("\n".join(unknown))
        return config

    def to_nested(self) -> dict[str, Any]:
        """Tables as in config.toml."""
        return self.model_dump(by_alias=True)

    def to_flat(self) -> dict[str, Scalar]:
        """Dotted keys as in Flower's run configuration."""
        return flatten(self.to_nested())

    def decisive(self) -> dict[str, Scalar]:
        """The settings that decide results; where they run and are written does not count."""
        flat = self.to_flat()
        for key in ("out", "resume", "device", "data.sites"):
            del flat[key]
        return flat

    def digest(self) -> str:
        """SHA-256 of the settings that decide results."""
        flat = self.decisive()
        return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one table of dotted keys.

    Raises:
        ConfigError: a key stands twice, once as a table and once dotted, so that one of them would be lost.
    """
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
        twice = sorted(flat.keys() & inner.keys())
        if twice:
            raise ConfigError(f"setting '{twice[0]}' stands twice, dotted and in a table: keep one of them")
        flat |= inner
    return flat


def default_settings() -> dict[str, Scalar]:
    """Dotted keys and unresolved defaults, in the order in which they are declared."""
    return {key: field.default for key, field in _settings(RunConfig)}


def setting_descriptions() -> dict[str, str]:
    """What each dotted key means."""
    return {key: field.description or "" for key, field in _settings(RunConfig)}


def _settings(section: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        key = f"{prefix}{name.replace('_', '-')}"
        if isinstance(field.default, Section):
            yield from _settings(type(field.default), f"{key}.")
        else:
            yield key, field


def parse_setting(assignment: str) -> tuple[str, Any]:
    """A `key=value` from the command line, its value converted to the type of the key's default.

    Raises:
        ConfigError: without an equals sign, for an unknown key, or for a value of another type.
    """
    key, separator, text = assignment.partition("=")
    if not separator:
        raise ConfigError(f"--set {assignment}: write key=value, for example train.epochs=5")
    key = key.strip()
    known = default_settings()
    if key not in known:
        raise ConfigError(_unknown_key(key, known))
    return key, _convert(key, text.strip(), known[key])


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


def _unknown_key(key: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else "see `fedtag settings` for all keys."
    return f"unknown setting '{key}': {hint}"


def _wrong_value(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    reason = error["msg"].removeprefix("Value error, ")
    if not key:
        return reason
    return f"{key} = {error['input']!r}: {reason[0].lower()}{reason[1:]}."
