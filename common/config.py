"""Every setting of a run, with its default, its range and its meaning.

Settings travel as Flower's run configuration: a flat table of scalars whose keys are dotted and in
kebab-case ("train.learning-rate"). The models here are the single source; `pyproject.toml` repeats the
defaults, because Flower only accepts overrides of keys that it finds there, and a test keeps both equal.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from common.errors import ConfigError

Scalar = bool | int | float | str
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]

# What a method's own default is: what one method needs would spoil another one's baseline.
LEARNING_RATES = {"dance": 3e-3}
DEFAULT_LEARNING_RATE = 1e-2
AVERAGE_DECAYS = {"dance": 0.95}
DEFAULT_AVERAGE_DECAY = 0.0
METHODS_DEFAULT = -1.0
# The one client of these holds the whole graph, cross-client edges included.
POOLED_METHODS = frozenset({"centralised"})


class Section(BaseModel):
    """A table of settings: frozen, in kebab-case, refusing keys that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        allow_inf_nan=False,
    )


class DataConfig(Section):
    """Where simulated clients get their graphs. At an institution only its own folder counts."""

    source: str = Field("pydocs", description="folder, feature graph .npz, public set by name, or pydocs")
    partition: str = Field("louvain", description="louvain, metis, random, dirichlet, or a partition file")
    split: str = Field("given", description="given, or fractions train,val,test such as 0.6,0.2,0.2")
    overlap: Fraction = Field(0.0, description="share of its own size that a client borrows as copies")
    dirichlet_alpha: Positive = Field(1.0, description="concentration of label shares over clients")
    sites: str = Field("", description="folder of already prepared sites; set by the commands")


class TextConfig(Section):
    """Chunks and the frozen encoder."""

    encoder: str = Field("bundled", description="bundled, a Hugging Face id, or a path")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="arithmetic of the encoder")
    chunk_tokens: Annotated[int, Field(ge=8, le=512)] = Field(64, description="most tokens in a chunk")
    pool_sharpness: NonNegative = Field(5.0, description="softmax sharpness of the pooled node vector")
    view: Literal["document", "chunks", "both"] = Field(
        "document", description="node features of a plain backbone: whole text, pooled chunks, or their mean"
    )


class ModelConfig(Section):
    """The backbone."""

    backbone: Literal["gcn", "sage", "gat", "mlp"] = Field("gcn", description="family of convolutions")
    hidden: Annotated[int, Field(ge=1, le=8192)] = Field(64, description="width of hidden layers")
    layers: Annotated[int, Field(ge=2, le=8)] = Field(2, description="number of layers")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.5, description="dropout of inputs and hidden states"
    )


class TrainConfig(Section):
    """Local training."""

    epochs: Count = Field(3, description="local epochs a round")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="fresh in every round")
    learning_rate: NonNegative = Field(0.0, description="step size; 0 takes the method's default")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="momentum of sgd")
    weight_decay: NonNegative = Field(5e-4, description="L2 penalty of the optimiser")
    prox_mu: NonNegative = Field(0.0, description="FedProx: weight of half the squared distance to the start")
    client_fraction: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="clients a round")
    inductive: bool = Field(False, description="hide test nodes and their edges during training")


class AggregationConfig(Section):
    """How contributions become one model."""

    weights: Literal["samples", "uniform"] = Field("samples", description="client weights")
    average_decay: Annotated[float, Field(ge=METHODS_DEFAULT, lt=1)] = Field(
        METHODS_DEFAULT,
        description="decay of an average of the global model over rounds, which is then scored and released; "
        "0 is off, -1 takes the method's default",
    )

    @field_validator("average_decay")
    @classmethod
    def _no_negative_decay(cls, value: float) -> float:
        if value < 0 and value != METHODS_DEFAULT:
            raise ValueError("must be in [0, 1), or -1 for the method's default")
        return value


class ExchangeConfig(Section):
    """Deadlines and quorum of one exchange with the clients."""

    deadline: Positive = Field(600.0, description="seconds until an exchange goes on without the rest")
    first_deadline: Positive = Field(7200.0, description="the same in round 1, where texts are encoded")
    start_timeout: Positive = Field(300.0, description="seconds to wait for the clients to come online")
    quorum: Fraction = Field(0.5, description="share of instructed clients that must answer")
    retries: Annotated[int, Field(ge=0, le=10)] = Field(1, description="repetitions of a round under quorum")
    poll: Positive = Field(0.05, description="seconds between two looks for replies")
    max_message_mb: Positive = Field(512.0, description="largest accepted reply in MiB")


class EvaluationConfig(Section):
    """How often and how models are scored."""

    every: Count = Field(1, description="rounds between two evaluations")
    local: bool = Field(True, description="also score the locally trained model, in columns of its own")


class DanceConfig(Section):
    """DANCE: core, evidence, topology, training."""

    core_policy: Literal["top", "gumbel", "coverage", "rotate", "random"] = Field(
        "rotate", description="how the core is chosen within a class; random ignores classes"
    )
    core_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two cores; 0: only once")
    text_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two evidence selections")
    confidence: Fraction = Field(0.8, description="least confidence of a pseudo-label")
    prototypes: Count = Field(10, description="most prototypes a class")
    one_hop_budget: Annotated[int, Field(ge=0)] = Field(3, description="neighbours kept at hop 1")
    two_hop_budget: Annotated[int, Field(ge=0)] = Field(2, description="neighbours kept at hop 2")
    two_hop_cap: Count = Field(256, description="larger two-hop sets are sampled down to this")
    difficulty: Literal["largest", "smallest", "none"] = Field(
        "largest", description="entropy order by which two-hop candidates are pre-filtered"
    )
    chunk_budget: Count = Field(4, description="chunks kept per node")
    mix: Fraction = Field(0.6, description="share of the chunk view against the neighbour context")
    propagated: Annotated[int, Field(ge=0, le=4)] = Field(
        2, description="hops of features propagated over the original graph that join the fusion; 0 is off"
    )
    document: bool = Field(True, description="whole-document vectors join the fusion")
    topology: Literal["self-expressive", "induced"] = Field(
        "self-expressive", description="graph of the core"
    )
    text_condensation: bool = Field(True, description="off: every node brings its own pooled vector only")
    reconstruction: Positive = Field(4.0, description="alpha of the topology objective")
    sparsity: NonNegative = Field(0.5, description="beta of the topology objective")
    candidates: Count = Field(10, description="candidates a row from each of the two similarities")
    degree: Count = Field(5, description="entries kept a row of the topology")
    align: NonNegative = Field(0.1, description="weight of the divergence between graph and text heads")
    head: NonNegative = Field(1.0, description="weight of the three heads' cross-entropies")
    plain_path: NonNegative = Field(1.0, description="weight of the backbone's loss on unfused features")
    pseudo_label_weight: NonNegative = Field(0.0, description="weight of pseudo-labelled core nodes")
    scoring: Literal["graph", "evidence", "auto"] = Field(
        "auto", description="the path whose score counts; auto: the better one on validation"
    )


class SummariesConfig(Section):
    """Summaries of evidence by an on-device language model."""

    limit: Annotated[int, Field(ge=0)] = Field(0, description="most summaries a site writes; 0 is off")
    model: str = Field("bundled", description="bundled, a Hugging Face id, or a path")
    batch: Count = Field(8, description="prompts generated at once")


class RunConfig(Section):
    """Every setting of a run."""

    method: str = Field("dance", description="isolated, centralised, fedavg, dance")
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
    exchange: ExchangeConfig = ExchangeConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    dance: DanceConfig = DanceConfig()
    summaries: SummariesConfig = SummariesConfig()

    @model_validator(mode="after")
    def _resolve(self) -> RunConfig:
        if not self.method.isidentifier():
            raise ValueError(
                f"method '{self.method}' is not a name; use fedavg, dance, isolated, centralised"
            )
        if self.train.learning_rate == 0:
            rate = LEARNING_RATES.get(self.method, DEFAULT_LEARNING_RATE)
            self._set(train=self.train.model_copy(update={"learning_rate": rate}))
        if self.aggregation.average_decay == METHODS_DEFAULT:
            decay = AVERAGE_DECAYS.get(self.method, DEFAULT_AVERAGE_DECAY)
            self._set(aggregation=self.aggregation.model_copy(update={"average_decay": decay}))
        if self.method in POOLED_METHODS:
            self._set(clients=1)
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

    def digest(self) -> str:
        """SHA-256 of the settings that decide results; where they run and are written does not count."""
        flat = self.to_flat()
        for key in ("out", "resume", "device", "data.sites"):
            del flat[key]
        return hashlib.sha256(json.dumps(flat, sort_keys=True).encode()).hexdigest()


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one table of dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def default_settings() -> dict[str, Scalar]:
    """Dotted keys and unresolved defaults, in the order in which they are declared."""
    flat: dict[str, Scalar] = {}
    for name, field in RunConfig.model_fields.items():
        if isinstance(field.default, Section):
            section = type(field.default)
            for inner, inner_field in section.model_fields.items():
                flat[f"{name}.{inner.replace('_', '-')}"] = inner_field.default
        else:
            flat[name.replace("_", "-")] = field.default
    return flat


def setting_descriptions() -> dict[str, str]:
    """What each dotted key means."""
    described: dict[str, str] = {}
    for name, field in RunConfig.model_fields.items():
        if isinstance(field.default, Section):
            for inner, inner_field in type(field.default).model_fields.items():
                described[f"{name}.{inner.replace('_', '-')}"] = inner_field.description or ""
        else:
            described[name] = field.description or ""
    return described


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
