"""The table of settings of DANCE."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.settings.sections import Count, Fraction, NonNegative


class DanceConfig(CoreConfig):
    """DANCE: core, evidence, topology, training."""

    text_refresh: Annotated[int, Field(ge=0)] = Field(1, description="rounds between two evidence selections")
    one_hop_budget: Annotated[int, Field(ge=0)] = Field(3, description="neighbours kept at hop 1")
    two_hop_budget: Annotated[int, Field(ge=0)] = Field(2, description="neighbours kept at hop 2")
    two_hop_cap: Count = Field(256, description="larger two-hop sets are sampled down to this")
    two_hop_paths: Count = Field(
        4096,
        description="of a node with more paths of length two a large two-hop set is sampled without walking them all",
    )
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
    text_condensation: bool = Field(True, description="off: every node brings its own pooled vector only")
    summaries: Literal["off", "audit", "feature"] = Field(
        "audit",
        description="off: none is written; audit: those of summaries.limit, for the auditor; feature: also one of "
        "every text, which the text view reads of the nodes whose chunks are selected",
    )
    summary_share: Fraction = Field(
        0.2, description="share of the summaries in the text view with feature; 0: none is written for it"
    )
    align: NonNegative = Field(0.1, description="weight of the divergence between graph and text heads")
    head: NonNegative = Field(1.0, description="weight of the three heads' cross-entropies")
    plain_path: NonNegative = Field(0.0, description="weight of the backbone's loss on unfused features")
    consistency: NonNegative = Field(
        0.0, description="weight of the divergence between the backbone on fused and on unfused features"
    )
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
