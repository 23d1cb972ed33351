"""The settings of backbones that have any."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fedtag.common.settings.sections import Fraction, Section

Hops = Annotated[int, Field(ge=1, le=64)]


class MonetConfig(Section):
    """[monet]."""

    kernels: Annotated[int, Field(ge=1, le=64)] = Field(
        3, description="Gaussians over pairs of degrees, each with weights of its own"
    )


class AppnpConfig(Section):
    """[appnp]."""

    hops: Hops = Field(10, description="steps of propagation, K")
    restart: Fraction = Field(
        0.1, description="share of its own prediction that a node keeps in each step, α"
    )


class GprConfig(Section):
    """[gpr]."""

    hops: Hops = Field(10, description="farthest power of the propagation matrix, K")
    restart: Fraction = Field(
        0.1, description="α of the personalised PageRank with which the weights of the powers begin"
    )


class ChebConfig(Section):
    """[cheb]."""

    terms: Annotated[int, Field(ge=1, le=16)] = Field(
        3, description="Chebyshev polynomials of a layer, K; it reads K - 1 hops"
    )


class SgcConfig(Section):
    """[sgc]."""

    hops: Hops = Field(2, description="power of the propagation matrix, K")
