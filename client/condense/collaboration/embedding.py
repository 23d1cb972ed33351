"""Statistics of a client's condensed nodes, and their common scale (FedC4, Eq. 8-10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class Portrait:
    """What a client tells of its condensed nodes (Eq. 8): μ_c = mean of h_i, and the norms ‖h_i‖, sorted."""

    mean: Float[Tensor, " hidden"]
    norms: Float[Tensor, " core"]


def portrait(hidden: Float[Tensor, "core hidden"]) -> Portrait:
    """The statistics of a client's embeddings; norms are sorted, so that they name no node."""
    return Portrait(hidden.mean(0), hidden.norm(dim=1).sort().values)


@dataclass(frozen=True, eq=False)
class Scale:
    """Means and deviations over clients (Eq. 9), which every client computes from the same portraits.

    `centre` is μ_global = 1/C Σ μ_c and `spread` σ_global = (1/C Σ ‖μ_c - μ_global‖²)^½; `norm_centre` and
    `norm_spread` are mean and deviation of all norms.
    """

    centre: Float[Tensor, " hidden"]
    spread: float
    norm_centre: float
    norm_spread: float

    def embedded(self, hidden: Float[Tensor, "rows hidden"]) -> Float[Tensor, "rows hidden"]:
        """(h - μ_global) / (σ_global + ε) (Eq. 10)."""
        return (hidden - self.centre) / (self.spread + _EPSILON)

    def normed(self, norms: Float[Tensor, " core"]) -> Float[Tensor, " core"]:
        """(‖h‖ - μ_dis) / (σ_dis + ε) (Eq. 10)."""
        return (norms - self.norm_centre) / (self.norm_spread + _EPSILON)


def common_scale(portraits: Mapping[str, Portrait]) -> Scale:
    """The scale of some clients, at least one; the same bits whatever the order in which they came."""
    ordered = [portraits[name] for name in sorted(portraits)]
    means = torch.stack([one.mean for one in ordered])
    centre = means.mean(0)
    spread = float((means - centre).square().sum(1).mean().sqrt())
    norms = torch.cat([one.norms for one in ordered])
    return Scale(centre, spread, float(norms.mean()), float(norms.std(unbiased=False)))
