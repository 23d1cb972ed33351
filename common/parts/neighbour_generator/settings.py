"""The table of settings of the generator of missing neighbours."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedtag.common.settings.sections import Section


class NeighbourGeneratorConfig(Section):
    """A generator of missing neighbours, trained together before the model."""

    rounds: Annotated[int, Field(ge=1, le=1000)] = Field(
        20, description="exchanges, all before round 1, in which the generator is trained"
    )
    hidden: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.2,
        description="share of the nodes that are hidden while it is trained, so that what is missing is known",
    )
    most: Annotated[int, Field(ge=1, le=5)] = Field(
        5, description="most neighbours that are generated for a node"
    )
