"""The features X' with which a condensation begins."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def gaussian_features(
    mean: Float[Tensor, " dim"], deviation: Float[Tensor, " dim"], size: int, generator: torch.Generator
) -> Float[Tensor, "core dim"]:
    """Draws from N(mean, deviation²), dimension by dimension.

    No row of anybody's, which the steps after it could leave nearly as it was.

    Args:
        mean: of the real features.
        deviation: their standard deviation, at least 0.
        size: rows wanted.
        generator: on the CPU, so that the draws are the same on all devices.
    """
    noise = torch.randn(size, mean.numel(), generator=generator, dtype=torch.float32)
    return mean + deviation * noise.to(device=mean.device, dtype=mean.dtype)


def moments(x: Float[Tensor, "nodes dim"]) -> tuple[Float[Tensor, " dim"], Float[Tensor, " dim"]]:
    """Mean and standard deviation of each dimension.

    Where no dimension varies, as in a single row, all deviations are a tenth of the mean's root mean square (0.1 if
    that is 0): draws without any would be that row.

    Args:
        x: at least one row.
    """
    mean, deviation = x.mean(0), x.std(0, correction=0)
    if bool((deviation > 0).any()):
        return mean, deviation
    scale = mean.square().mean().sqrt()
    return mean, torch.full_like(deviation, float(0.1 * scale) or 0.1)
