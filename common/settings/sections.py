"""The tables of settings: defaults, ranges, meanings."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

METHODS_DEFAULT = -1.0

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Fraction = Annotated[float, Field(ge=0, le=1)]
# Optimisers divide some of them by a hundredth and less, and still need a number of single precision.
Positive = Annotated[float, Field(gt=0, le=1e30)]
NonNegative = Annotated[float, Field(ge=0, le=1e30)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class Section(BaseModel):
    """A table of settings: frozen, in kebab-case, refusing keys that it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        populate_by_name=True,
        allow_inf_nan=False,
        strict=True,
    )

    @field_validator("*")
    @classmethod
    def _no_control(cls, value: object) -> object:
        # NUL ends a path and an argument of another program; where settings are shown, the end of a line forges others.
        if isinstance(value, str) and CONTROL.search(value):
            raise ValueError("must hold no control character and no end of a line: remove it")
        return value


class ParentConfig(Section):
    """The run that a run goes on from; the commands set it."""

    model: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = Field(
        "", description="fingerprint of the released model that training goes on from"
    )
    run: Annotated[str, Field(pattern=r"^([0-9A-Za-z][0-9A-Za-z-]{0,63})?$")] = Field(
        "", description="identifier of the finished run that this one extends, with all that was kept of it"
    )
    rounds: Annotated[int, Field(ge=0)] = Field(0, description="rounds of that run, which are not done again")


class DataConfig(Section):
    """Where simulated clients get their graphs. At an institution only its own folder counts."""

    source: str = Field(
        "pydocs-brief",
        description="folder, feature graph .npz, public set by name, pydocs-brief, or pydocs with longer texts",
    )
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

    backbone: str = Field("gcn", description="family of convolutions; `fedtag methods` lists all")
    hidden: Annotated[int, Field(ge=1, le=8192)] = Field(64, description="width of hidden layers")
    layers: Annotated[int, Field(ge=2, le=8)] = Field(2, description="number of layers")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.5, description="dropout of inputs and hidden states"
    )


class AggregationConfig(Section):
    """How contributions become one model."""

    weights: Literal["default", "samples", "uniform", "distribution-aware"] = Field(
        "default",
        description="client weights: by training nodes, equal, or by how well their data and models represent all; "
        "default: the method's own, mostly samples",
    )
    similarity_scale: Positive = Field(
        1.0, description="how fast distribution-aware weights fall with the distance from all "
    )
    statistics: Literal["current", "previous"] = Field(
        "current",
        description="round whose statistics decide distribution-aware weights; secure summation needs previous",
    )
    normalise: Literal["default", "none", "fednova"] = Field(
        "default",
        description="fednova divides updates by their effective steps; default: the method's own, mostly none",
    )
    rule: Literal[
        "default",
        "mean",
        "median",
        "trimmed-mean",
        "krum",
        "multi-krum",
        "bulyan",
        "group-median",
        "group-trimmed-mean",
    ] = Field(
        "default",
        description="how updates are combined; all but mean are robust, and group rules work on masked sums of groups; "
        "default: group-median under masks from nine clients on, else the method's own, mostly mean",
    )
    # Sites check what the server sends by this range, so that it cannot lift the limit.
    max_share: Annotated[float, Field(gt=0, le=0.9)] = Field(
        0.5, description="largest weight of one client among three or more; what is above goes to the others"
    )
    norm_factor: NonNegative = Field(
        3.0,
        description="an update in clear that is longer than so many times the round's median is cut to it; 0: never",
    )
    hostile: Annotated[int, Field(ge=0)] = Field(
        0,
        description="clients that krum, multi-krum, bulyan and group rules assume to be hostile; 0 counts as 1 there",
    )
    trim: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        0.2, description="share of the values that trimmed means cut off at each end"
    )
    server_optimiser: Literal["none", "momentum", "adam", "yogi", "adagrad"] = Field(
        "none", description="optimiser that takes the combined update as its gradient"
    )
    server_rate: Positive = Field(1.0, description="step size on the server")
    server_momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.9, description="of momentum; decay of the first moment of adam and yogi"
    )
    server_second_moment: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.99, description="decay of the second moment of adam and yogi"
    )
    server_adaptivity: Positive = Field(
        1e-3, description="term that keeps the steps of adam, yogi and adagrad finite"
    )
    max_update_norm: NonNegative = Field(
        0.0, description="L2 norm beyond which an update is left out; 0: no bound"
    )
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

    metric: Literal["accuracy", "macro-f1", "balanced-accuracy", "auroc", "auprc"] = Field(
        "accuracy",
        description="by which metric on validation nodes the released round is chosen, and comparisons are shown",
    )
    every: Count = Field(1, description="rounds between two evaluations")
    local: bool = Field(True, description="also score the locally trained model, in columns of its own")


class TrackingConfig(Section):
    """Where numbers of rounds go beside the run directory, from the coordinator's machine."""

    trackers: str = Field(
        "tensorboard",
        description="names, with commas between them; `fedtag methods` lists all; empty: none",
    )


class CondenserConfig(Section):
    """Condensation of a client's graph into a few labelled nodes."""

    name: str = Field(
        "none",
        description="what clients train on instead of their graph; none: the graph itself, or the method's own choice; "
        "`fedtag methods` lists all",
    )
    matching_model: Literal["gcn", "sgc"] = Field(
        "gcn",
        description="model whose gradients are matched: of two layers, or its linear form",
    )
    hidden: Annotated[int, Field(ge=1, le=8192)] = Field(64, description="width of the matching model")
    distance: Literal["cosine", "squared"] = Field(
        "cosine", description="between gradients: one minus the cosine of columns, or squared error"
    )
    outer_loops: Count = Field(60, description="fresh matching models")
    inner_loops: Count = Field(10, description="points of a model's training where gradients are matched")
    model_steps: Count = Field(5, description="steps of the model on the condensed graph between two points")
    model_rate: Positive = Field(0.01, description="step size of matching models")
    weight_decay: NonNegative = Field(5e-4, description="L2 penalty of models that are trained")
    feature_steps: Count = Field(10, description="feature steps before the turn of the adjacency")
    adjacency_steps: Count = Field(5, description="adjacency steps before the turn of the features")
    feature_rate: Positive = Field(
        0.1, description="step size of condensed features, in standard deviations of the real ones"
    )
    adjacency_rate: Positive = Field(0.01, description="step size of the adjacency's network")
    threshold: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="delta: learned links of at most this weight are dropped"
    )
    class_budget: Count = Field(256, description="most training nodes of a class in one match")
    neighbours: Count = Field(20, description="most neighbours of a node, at either hop, in one match")
    validate_every: Count = Field(5, description="outer loops between two scores on validation nodes")
    patience: Count = Field(6, description="scores without a new best one after which condensation ends")
    validation_steps: Count = Field(100, description="steps of the model that is scored on validation nodes")
    experts: Count = Field(5, description="of trajectories: models trained on the real graph")
    expert_steps: Count = Field(200, description="of trajectories: steps of an expert")
    expert_rate: Positive = Field(
        0.5, description="of trajectories: step size of experts, over the mean square of propagated features"
    )
    expert_span: Count = Field(
        20, description="of trajectories: steps of an expert that a student takes after it"
    )


class SummariesConfig(Section):
    """Summaries of evidence by an on-device language model."""

    limit: Annotated[int, Field(ge=0)] = Field(
        0,
        description="most summaries a site writes for the auditor, for each model that may be released; 0 is off",
    )
    model: str = Field("bundled", description="bundled, a Hugging Face id, or a path")
    batch: Count = Field(8, description="prompts generated at once")
