"""Statistics of a client's condensed nodes, and their common scale (FedC4, Eq. 8-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class Portrait:
    """What a client tells of its condensed nodes.

    Args:
        mean: μ_c, the mean of h_i (Eq. 8).
        spectrum: along each direction, where the nodes lie; sorted, so that it names no node. There is one
            direction for the norms ‖h_i‖ (Eq. 8), or one for each projection of the sliced distance.
    """

    mean: Float[Tensor, " hidden"]
    spectrum: Float[Tensor, "directions core"]


def portrait(
    hidden: Float[Tensor, "core hidden"], directions: Float[Tensor, "directions hidden"] | None = None
) -> Portrait:
    """The statistics of a client's embeddings.

    Args:
        hidden: h, at least one row.
        directions: unit vectors on which h is projected; None: the norms stand for them.
    """
    lines = hidden.norm(dim=1).unsqueeze(0) if directions is None else directions @ hidden.T
    return Portrait(hidden.mean(0), lines.sort(dim=1).values)


def random_directions(
    count: int, dimension: int, generator: torch.Generator
) -> Float[Tensor, "directions hidden"]:
    """Unit vectors, uniform on the sphere; the same for every client that draws them from the same seed."""
    return normalize(torch.randn(count, dimension, generator=generator), dim=1)


@dataclass(frozen=True, eq=False)
class Scale:
    """Means and deviations over clients (Eq. 9), which every client computes from the same portraits.

    `centre` is μ_global = 1/C Σ μ_c and `spread` σ_global = (1/C Σ ‖μ_c - μ_global‖²)^½; `line_centre` and
    `line_spread` are mean and deviation of all values in the spectra.
    """

    centre: Float[Tensor, " hidden"]
    spread: float
    line_centre: float
    line_spread: float

    def embedded(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
        """(h - μ_global) / (σ_global + ε) (Eq. 10)."""
        return (hidden - self.centre) / (self.spread + _EPSILON)

    def placed(self, spectrum: Float[Tensor, "directions core"]) -> Float[Tensor, "directions core"]:
        """(‖h‖ - μ_dis) / (σ_dis + ε) (Eq. 10)."""
        return (spectrum - self.line_centre) / (self.line_spread + _EPSILON)


def common_scale(portraits: Mapping[str, Portrait]) -> Scale:
    """The scale of some clients, at least one; the same bits whatever the order in which they came."""
    ordered = [portraits[name] for name in sorted(portraits)]
    means = torch.stack([one.mean for one in ordered])
    centre = means.mean(0)
    spread = float((means - centre).square().sum(1).mean().sqrt())
    lines = torch.cat([one.spectrum.flatten() for one in ordered])
    return Scale(centre, spread, float(lines.mean()), float(lines.std(unbiased=False)))
