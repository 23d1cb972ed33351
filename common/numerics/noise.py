"""Noise that nobody can compute again: Gaussian for differential privacy, Laplace for what clients show."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from fedtag.common.errors import ConfigError

RandomBytes = Callable[[int], bytes]
"""So many random bytes; `numpy.random.Generator.bytes` is one, too."""


def entropy_generator() -> RandomBytes:
    """The operating system's cryptographic generator, the only source of noise in a real run.

    Noise from the run's seed would protect from nobody: every participant knows the seed, could draw the same
    noise and subtract it. Nor is a torch generator with a secret seed enough, because on a CPU it uses 32 bits
    of the seed, few enough to try all of them.
    """
    return os.urandom


def gaussian(
    like: Mapping[str, Tensor], standard_deviation: float, generator: RandomBytes
) -> dict[str, Tensor]:
    """Independent N(0, σ²) for each value of the floating-point tensors, zeros for the others.

    Drawn in float64 in the order of names, then rounded to each tensor's dtype. The guarantee is that of real
    numbers: patterns in the lowest bits of floating-point sums (Mironov, 2012) are not hidden, other than by
    the rounding to fixed point under secure summation.

    Args:
        like: tensors whose names, shapes and dtypes the noise takes.
        standard_deviation: σ, at least 0.
        generator: `entropy_generator()`; a seeded one in tests only.
    """
    return {
        name: (
            torch.from_numpy(standard_deviation * _normals(value.numel(), generator))
            .view(value.shape)
            .to(value.dtype)
            if value.is_floating_point()
            else torch.zeros_like(value)
        )
        for name, value in sorted(like.items())
    }


def laplace(like: Float[Tensor, "*shape"], scale: float, generator: RandomBytes) -> Float[Tensor, "*shape"]:
    """Independent Laplace(0, b) for each value: b times the difference of two exponential ones.

    Args:
        like: tensor whose shape, dtype and device the noise takes.
        scale: b, at least 0.
        generator: `entropy_generator()`; a seeded one in tests only.
    """
    count = like.numel()
    words = np.frombuffer(generator(16 * count), dtype="<u8").reshape(2, count)
    exponential = -np.log1p(-((words >> np.uint64(11)) * 2.0**-53))
    drawn = torch.from_numpy(scale * (exponential[0] - exponential[1]))
    return drawn.view(like.shape).to(like)


def share_of_noise(noise: float, clip: float, threshold: int, colluders: int) -> float:
    """σS / √(threshold − c): the standard deviation of each client's own noise.

    Every sum that is unmasked has at least `threshold` parts, of which c may be known to an adversary; the
    others still add up to σS.

    Args:
        noise: σ, in clips.
        clip: S.
        threshold: the fewest clients whose sum is ever unmasked.
        colluders: c ≥ 0, clients that may reveal their part.

    Raises:
        ConfigError: no honest part would be left.
    """
    if threshold <= colluders:
        raise ConfigError(
            f"privacy.dp.colluders = {colluders} leaves no honest noise in a sum of {threshold} clients, the "
            "fewest that are ever unmasked: lower it, or let more clients take part"
        )
    return noise * clip / math.sqrt(threshold - colluders)


def _normals(count: int, generator: RandomBytes) -> Float64[np.ndarray, " count"]:
    """Standard normal values by Box and Muller's transform of uniform ones with 53 bits."""
    pairs = (count + 1) // 2
    words = np.frombuffer(generator(16 * pairs), dtype="<u8").reshape(2, pairs)
    uniform = (words >> np.uint64(11)) * 2.0**-53  # in [0, 1)
    radius = np.sqrt(-2 * np.log1p(-uniform[0]))
    angle = 2 * np.pi * uniform[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]
