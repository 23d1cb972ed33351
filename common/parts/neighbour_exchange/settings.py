"""The table of settings of the exchange of neighbour sums."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import Count, Section


class NeighbourExchangeConfig(Section):
    """Features join those of linked nodes at other institutions, once, before training."""

    mode: Literal["off", "summed", "encrypted"] = Field(
        "off",
        description="sums under masks, or under homomorphic encryption; another value than off switches it on",
    )
    hops: Annotated[int, Field(ge=1, le=2)] = Field(
        1, description="propagations of the features, each of which takes an exchange"
    )
    min_neighbours: Count = Field(
        3, description="least foreign neighbours over which a node gets a sum; others go without"
    )
