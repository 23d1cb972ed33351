"""The table of local training."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedtag.common.settings.sections import METHODS_DEFAULT, Fraction, NonNegative, Section

AUTO = "auto"
"""A size that follows from free memory."""
LEAST_BATCH = 16
"""Nodes of a batch than which none is smaller by itself."""


class TrainConfig(Section):
    """Local training."""

    epochs: Annotated[int, Field(ge=0, le=10**9)] = Field(
        0, description="local epochs a round; 0: the method's own, mostly 3"
    )
    optimizer: Literal["default", "adam", "sgd"] = Field(
        "default", description="fresh in every round; default: the method's own, mostly adam"
    )
    learning_rate: NonNegative = Field(0.0, description="step size; 0: the method's own, mostly 0.01")
    schedule: Literal["default", "constant", "cosine"] = Field(
        "default", description="of the step size over the run; default: the method's own, mostly constant"
    )
    final_rate: Fraction = Field(0.1, description="share of the step size left in the last round of cosine")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.9, description="momentum of sgd")
    weight_decay: NonNegative = Field(5e-4, description="L2 penalty of the optimiser")
    prox_mu: Annotated[float, Field(ge=METHODS_DEFAULT)] = Field(
        METHODS_DEFAULT,
        description="weight of half the squared distance to the start; -1: the method's own, mostly 0",
    )
    client_fraction: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="clients a round")
    accuracy_threshold: Fraction = Field(
        0.0,
        description="validation accuracy of the received model under which a client works longer; 0: never",
    )
    extra_epochs: Annotated[int, Field(ge=0, le=1000)] = Field(
        0, description="most further local epochs of a client under the threshold"
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="of labels that are learned; balanced: the weights of all classes of a client sum to the same",
    )
    inductive: bool = Field(False, description="hide test nodes and their edges during training")
    batch_size: int | Literal["auto"] = Field(
        0,
        description="labelled nodes of one step, and nodes of one pass in scores, predictions and evidence; "
        "0: the whole graph at once; auto: by each site's free memory",
    )
    fan_out: Annotated[int, Field(ge=0, le=10**9)] = Field(
        10, description="most neighbours that a node brings into a batch at each hop; 0: all of them"
    )

    @field_validator("batch_size", mode="before")
    @classmethod
    def _whole_some_or_auto(cls, value: object) -> object:
        if value == AUTO or (type(value) is int and 0 <= value <= 10**9):
            return value
        raise ValueError("must be 0 for the whole graph, a number of nodes, or auto")

    @field_validator("prox_mu")
    @classmethod
    def _no_negative_weight(cls, value: float) -> float:
        if value < 0 and value != METHODS_DEFAULT:
            raise ValueError("must be at least 0, or -1 for the method's default")
        return value
