"""The table of settings of the core: whom it has, how long it stays, what links it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import Count, Fraction, NonNegative, Positive, Section


class CoreConfig(Section):
    """The core of a graph: nodes, labels, topology."""

    core_policy: Literal["top", "gumbel", "coverage", "rotate", "curriculum", "random"] = Field(
        "rotate", description="how the core is chosen within a class; random ignores classes"
    )
    curriculum_rounds: Count = Field(
        30, description="rounds in which the policy curriculum goes from the easiest half of a class to all"
    )
    core_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two cores; 0: only once")
    confidence: Fraction = Field(0.8, description="least confidence of a pseudo-label")
    calibration: Literal["none", "temperature"] = Field(
        "none", description="temperature: confidences are scaled to fit the labels of the training nodes"
    )
    pseudo_share: Fraction = Field(
        0.0, description="share of a rotating core that goes to pseudo-labelled nodes"
    )
    prototypes: Count = Field(10, description="most prototypes a class")
    topology: Literal["self-expressive", "induced"] = Field(
        "self-expressive", description="graph of the core"
    )
    reconstruction: Positive = Field(4.0, description="alpha of the topology objective")
    sparsity: NonNegative = Field(0.5, description="beta of the topology objective")
    candidates: Count = Field(10, description="candidates a row from each of the two similarities")
    exact_core: Count = Field(
        8192,
        description="largest core whose candidates come from comparing all pairs; those of a larger one come from an "
        "approximate index",
    )
    degree: Count = Field(5, description="entries kept a row of the topology")
    pseudo_label_weight: NonNegative = Field(0.0, description="weight of pseudo-labelled core nodes")
