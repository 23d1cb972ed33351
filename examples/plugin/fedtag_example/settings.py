"""The tables of settings: each appears under the name of what it belongs to, as [class-balance]."""

from __future__ import annotations

from pydantic import Field

from fedtag.extension import Fraction, NonNegative, Section


class ClassBalanceConfig(Section):
    """How much more a node of a rare class counts."""

    smoothing: NonNegative = Field(
        0.05, description="added to the share of each class before it is inverted; large: all classes alike"
    )


class FeatureNoiseConfig(Section):
    """Noise on the features of nodes."""

    deviation: NonNegative = Field(0.1, description="standard deviation of the noise")


class TwiceLinearConfig(Section):
    """Propagation without activations."""

    restart: Fraction = Field(0.0, description="share of its own features that a node keeps at every hop")
