"""The table of settings of the exchange of neighbour sums."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.run_settings import RunSettings
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


def exchange_settings(settings: RunSettings) -> NeighbourExchangeConfig:
    """Those of the exchange; with the mode off in a run without it."""
    table = settings.tables.get("neighbour-exchange")
    return table if isinstance(table, NeighbourExchangeConfig) else NeighbourExchangeConfig()
