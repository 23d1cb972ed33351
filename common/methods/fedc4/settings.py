"""The table of settings of FedC4."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import Count, Fraction, NonNegative, Positive, Section


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
