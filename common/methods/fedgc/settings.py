"""The table of settings of FedGC."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import Count, Fraction, NonNegative, Positive, Section

Steps = Annotated[int, Field(ge=1, le=10**6)]


class FedGCConfig(Section):
    """FedGC: self-training, condensation by the server, fine-tuning by the clients."""

    bottleneck: bool = Field(
        False,
        description="features are transformed so that they tell the self-trained model enough, and little else; off, "
        "since validation is better without, and attacks tell no more of the graph",
    )
    compression: NonNegative = Field(
        5e-4, description="gamma: weight of the divergence of transformed features from noise"
    )
    bottleneck_epochs: Steps = Field(30, description="steps of the transformation")
    bottleneck_rate: Positive = Field(0.001, description="step size of the transformation")
    learn_from: Literal["pseudo", "both", "training"] = Field(
        "pseudo",
        description="whose gradients are told: of nodes of no split alone, the half of which a self-trained model is "
        "surest, by its labels; of training nodes, and those with a pseudo-label; or of training nodes alone",
    )
    self_training_rounds: Count = Field(
        15, description="first rounds, in which the model of self-training is learned from averaged updates"
    )
    confidence: Fraction = Field(
        0.8, description="least probability of a pseudo-label, where training nodes count too"
    )
    min_class_count: Count = Field(
        5, description="least labelled nodes behind any sum over a class that the server sees"
    )
    matching_model: Literal["gcn", "sgc"] = Field(
        "gcn", description="model whose gradients are matched: of two layers, or its linear form"
    )
    hidden: Annotated[int, Field(ge=1, le=8192)] = Field(32, description="width of the matching model")
    distance: Literal["cosine", "squared"] = Field(
        "squared", description="between gradients: squared error, or one minus the cosine of columns"
    )
    steps: Steps = Field(10, description="steps of the condensed graph on the gradients of a round")
    feature_steps: Count = Field(20, description="feature steps before the turn of the links")
    adjacency_steps: Count = Field(10, description="link steps before the turn of the features")
    feature_rate: Positive = Field(
        0.1, description="step size of condensed features, in standard deviations of the real ones"
    )
    adjacency_rate: Positive = Field(0.01, description="step size of the links' network")
    links: Literal["learned", "none"] = Field(
        "none", description="whether condensed nodes have links, which follow from their features"
    )
    threshold: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.1, description="delta: learned links of at most this weight are dropped"
    )
    class_budget: Count = Field(256, description="most labelled nodes of a class in a client's gradient")
    neighbours: Count = Field(20, description="most neighbours of a node, at either hop, in a gradient")
    model_steps: Steps = Field(200, description="steps of the model that is trained on the condensed graph")
    model_rate: Positive = Field(0.01, description="step size of that model")
    fine_tune_steps: Annotated[int, Field(ge=0, le=10**6)] = Field(
        30, description="most steps by which a client fits that model to its own graph; 0: none"
    )
    fine_tune_rate: Positive = Field(0.01, description="step size of these")
    weight_decay: NonNegative = Field(5e-4, description="L2 penalty of that model, in both trainings")
    dp_mode: Literal["off", "local", "distributed"] = Field(
        "off",
        description="noise for single training nodes on what is told of classes: all of it by each client, or a part "
        "by each under secure summation",
    )
    dp_clip: Positive = Field(
        1.0, description="L2 norm to which the gradient of one node is clipped, under noise"
    )
    dp_noise: Positive = Field(
        1.0, description="standard deviation of the noise on a sum, in clips; on counts, in nodes"
    )
    dp_delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="delta of the guarantee")
    keep_states: bool = Field(
        False,
        description="the server keeps the self-trained model and the condensed graph of every scored round, for an "
        "audit over rounds",
    )
