"""The tables of settings of privacy."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedtag.common.settings.sections import NonNegative, Positive, Section


class DifferentialPrivacyConfig(Section):
    """Client-level differential privacy; the unit of privacy is one institution."""

    mode: Literal["off", "central", "distributed"] = Field(
        "off", description="noise added by the server, or by each client under secure summation"
    )
    clip: Positive = Field(1.0, description="L2 norm to which a client's update is clipped")
    noise: NonNegative = Field(1.0, description="standard deviation of the noise on the sum, in clips")
    delta: Annotated[float, Field(gt=0, lt=1)] = Field(1e-5, description="delta of the guarantee")
    colluders: Annotated[int, Field(ge=0)] = Field(
        1, description="clients assumed to reveal their own part of distributed noise"
    )


class PrivacyConfig(Section):
    """What the server may learn of single clients."""

    secure_aggregation: bool = Field(
        False, description="the server learns weighted sums of updates only, by masks that cancel"
    )
    hide_statistics: bool = Field(
        False, description="scores, losses and counts of nodes are summed under the masks too"
    )
    roster: bool = Field(
        False, description="sites pin each other's keys in a roster file and sign the list of survivors"
    )
    block_rounds: Annotated[int, Field(ge=1, le=1000)] = Field(
        20, description="sums that one set-up exchange prepares"
    )
    scale_bits: Annotated[int, Field(ge=20, le=52)] = Field(
        40, description="fixed point: binary digits after the point"
    )
    limit: Annotated[float, Field(ge=1)] = Field(
        16384.0, description="fixed point: largest absolute value of one coordinate"
    )
    dp: DifferentialPrivacyConfig = DifferentialPrivacyConfig()
