"""The tables of settings that belong to methods: condensation, evidence, what clients exchange."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from fedtag.common.settings.sections import Count, Fraction, NonNegative, Positive, Section

ROUND_CORE = "dance-core"
"""The condenser that chooses DANCE's core anew in every round, by the received model."""


class DanceConfig(Section):
    """DANCE: core, evidence, topology, training."""

    core_policy: Literal["top", "gumbel", "coverage", "rotate", "curriculum", "random"] = Field(
        "rotate", description="how the core is chosen within a class; random ignores classes"
    )
    curriculum_rounds: Count = Field(
        30, description="rounds in which the policy curriculum goes from the easiest half of a class to all"
    )
    core_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two cores; 0: only once")
    text_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two evidence selections")
    confidence: Fraction = Field(0.8, description="least confidence of a pseudo-label")
    calibration: Literal["none", "temperature"] = Field(
        "none", description="temperature: confidences are scaled to fit the labels of the training nodes"
    )
    pseudo_share: Fraction = Field(
        0.0, description="share of a rotating core that goes to pseudo-labelled nodes"
    )
    prototypes: Count = Field(10, description="most prototypes a class")
    one_hop_budget: Annotated[int, Field(ge=0)] = Field(3, description="neighbours kept at hop 1")
    two_hop_budget: Annotated[int, Field(ge=0)] = Field(2, description="neighbours kept at hop 2")
    two_hop_cap: Count = Field(256, description="larger two-hop sets are sampled down to this")
    difficulty: Literal["largest", "smallest", "none"] = Field(
        "largest", description="entropy order by which two-hop candidates are pre-filtered"
    )
    chunk_budget: Count = Field(4, description="chunks kept per node")
    mix: Fraction = Field(0.8, description="share of the chunk view against the neighbour context")
    propagated: Annotated[int, Field(ge=0, le=4)] = Field(
        2,
        description="hops of features propagated over the original graph that join the fusion; 0: none joins",
    )
    propagated_view: Literal["chunks", "document", "both"] = Field(
        "document", description="what is propagated: pooled chunks, whole texts, or their mean"
    )
    rank: Annotated[int, Field(ge=0)] = Field(
        16, description="rank of the trained maps of text and propagated vectors; 0: full matrices"
    )
    skip: bool = Field(True, description="a linear map of the backbone's input joins its logits")
    topology: Literal["self-expressive", "induced"] = Field(
        "self-expressive", description="graph of the core"
    )
    text_condensation: bool = Field(True, description="off: every node brings its own pooled vector only")
    summaries: Literal["off", "audit", "feature"] = Field(
        "audit",
        description="off: none is written; audit: those of summaries.limit, for the auditor; feature: also one of "
        "every text, which the text view reads of the nodes whose chunks are selected",
    )
    summary_share: Fraction = Field(
        0.2, description="share of the summaries in the text view with feature; 0: none is written for it"
    )
    reconstruction: Positive = Field(4.0, description="alpha of the topology objective")
    sparsity: NonNegative = Field(0.5, description="beta of the topology objective")
    candidates: Count = Field(10, description="candidates a row from each of the two similarities")
    degree: Count = Field(5, description="entries kept a row of the topology")
    align: NonNegative = Field(0.1, description="weight of the divergence between graph and text heads")
    head: NonNegative = Field(1.0, description="weight of the three heads' cross-entropies")
    plain_path: NonNegative = Field(0.0, description="weight of the backbone's loss on unfused features")
    consistency: NonNegative = Field(
        0.0, description="weight of the divergence between the backbone on fused and on unfused features"
    )
    pseudo_label_weight: NonNegative = Field(0.0, description="weight of pseudo-labelled core nodes")
    sufficiency: NonNegative = Field(
        3.0, description="weight of the backbone's loss on the evidence alone, without links and other views"
    )
    noise: NonNegative = Field(
        0.0,
        description="scale of Laplace noise on the core's fused representations, which are then unit rows",
    )
    scoring: Literal["graph", "evidence", "auto"] = Field(
        "auto", description="the path whose score counts; auto: the better one on validation"
    )

    @field_validator("summaries")
    @classmethod
    def _no_summaries_without_chunks(cls, value: str, info: Any) -> str:
        if value == "feature" and not info.data.get("text_condensation", True):
            raise ValueError(
                "summaries join the view of the selected chunks: set dance.text-condensation = true, or "
                "dance.summaries = audit"
            )
        return value


class CondenserConfig(Section):
    """Condensation of a client's graph into a few labelled nodes, once before training; dance-core: in every round."""

    name: Literal[
        "none",
        "gcond",
        "gcond-x",
        "doscond",
        "sfgc",
        "random",
        "herding",
        "k-center",
        "coarsening",
        "dance-core",
    ] = Field(
        "none",
        description="what clients train on instead of their graph; none: the graph itself, with fedc4 gcond-x; "
        "dance-core: the core that the dance settings give the received model",
    )
    matching_model: Literal["gcn", "sgc"] = Field(
        "gcn",
        description="model whose gradients are matched: of two layers, or its linear form; of sfgc always gcn",
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
    experts: Count = Field(5, description="of sfgc: models trained on the real graph")
    expert_steps: Count = Field(200, description="of sfgc: steps of an expert")
    expert_rate: Positive = Field(
        0.5, description="of sfgc: step size of experts, over the mean square of propagated features"
    )
    expert_span: Count = Field(20, description="of sfgc: steps of an expert that a student takes after it")


class SummariesConfig(Section):
    """Summaries of evidence by an on-device language model."""

    limit: Annotated[int, Field(ge=0)] = Field(
        0,
        description="most summaries a site writes for the auditor, for each model that may be released; 0 is off",
    )
    model: str = Field("bundled", description="bundled, a Hugging Face id, or a path")
    batch: Count = Field(8, description="prompts generated at once")


class FedC4Config(Section):
    """FedC4: what clients show one another of their condensed graphs, and what they rebuild."""

    exchange: Literal["selected", "cluster", "broadcast", "off"] = Field(
        "selected",
        description="nodes shown: those like the peer's, all of them within the cluster, all to everybody, none",
    )
    threshold: Annotated[float, Field(ge=-1, le=1)] = Field(
        0.0, description="tau: cosine to a peer's mean embedding above which a node is shown to it"
    )
    recluster: Count = Field(20, description="rounds between two exchanges of statistics among all clients")
    distance: Literal["norms", "sliced"] = Field(
        "norms", description="Wasserstein distance between clients: of embedding norms, or of projections"
    )
    projections: Annotated[int, Field(ge=1, le=1024)] = Field(
        64, description="directions of the sliced distance"
    )
    cut: Fraction = Field(
        0.5, description="share of the largest distance between clients beyond which clusters do not merge"
    )
    clusters: Annotated[int, Field(ge=0, le=10**6)] = Field(
        0, description="number of clusters; 0: as many as the cut leaves"
    )
    rebuild: bool = Field(
        True,
        description="link own and received nodes anew; otherwise own links stay and received nodes have none",
    )
    alpha: Positive = Field(1000.0, description="weight of reconstruction in the rebuilt graph")
    beta: NonNegative = Field(1800.0, description="weight of sparsity in the rebuilt graph")
    candidates: Count = Field(32, description="nodes among which each node finds its neighbours")
    neighbours: Count = Field(3, description="links that each node keeps before the graph is made symmetric")
    noise: NonNegative = Field(0.0, description="b of Laplace noise on the features that peers see; 0 is off")
