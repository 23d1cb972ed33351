"""What differential privacy guarantees after so many rounds.

Neighbouring federations differ in one institution, whose contribution is replaced by zero; it is the unit of
privacy. All clients take part in every round, so nothing is gained by sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError

UNIT = "one institution"


@dataclass(frozen=True)
class PrivacySpent:
    """The guarantee of a run, for summary.json.

    Args:
        epsilon: of (ε, δ)-differential privacy for all rounds together; None where nothing bounds it.
        delta: δ.
        unit: whose whole contribution is protected.
        mode: `central` or `distributed`.
        noise: standard deviation of the noise on the sum, in clips.
        clip: L2 norm to which each client's update is clipped.
        rounds: sums that were released.
    """

    epsilon: float | None
    delta: float
    unit: str
    mode: str
    noise: float
    clip: float
    rounds: int


def spent(config: RunConfig, sums: int, dimension: int) -> dict[str, Any] | None:
    """The guarantee of a run as a table for summary.json; None where differential privacy is off.

    Args:
        config: of the run.
        sums: that were released.
        dimension: number of parameters.

    Raises:
        ConfigError: dp-accounting is not installed.
    """
    dp = config.privacy.dp
    if dp.mode == "off":
        return None
    sensitivity = dp.clip
    if dp.mode == "distributed":
        sensitivity = distributed_sensitivity(dp.clip, dimension, config.privacy.scale_bits)
    return vars(privacy_spent(dp.mode, dp.noise, dp.clip, dp.delta, sums, sensitivity))


def privacy_spent(
    mode: str, noise: float, clip: float, delta: float, rounds: int, sensitivity: float
) -> PrivacySpent:
    """The guarantee of `rounds` noisy sums.

    Args:
        mode: `central` or `distributed`.
        noise: σ in clips, at least 0.
        clip: S > 0.
        delta: in (0, 1).
        rounds: at least 0.
        sensitivity: what one institution can change in a sum: S, or `distributed_sensitivity`.

    Raises:
        ConfigError: dp-accounting is not installed.
    """
    bound = epsilon(noise * clip / sensitivity, rounds, delta)
    return PrivacySpent(bound if math.isfinite(bound) else None, delta, UNIT, mode, noise, clip, rounds)


def epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """The least ε for which `rounds` Gaussian mechanisms together are (ε, δ)-differentially private.

    T of them with noise σ are one with noise σ / √T (Dong et al., 2022, Corollary 3.3), whose privacy loss has a
    closed form (Balle and Wang, 2018, Theorem 8). That is what a PLD accountant approaches from above.

    Args:
        noise_multiplier: standard deviation of the noise over the sensitivity of a sum, at least 0.
        rounds: sums that are released, at least 0.
        delta: in (0, 1).

    Returns:
        ε ≥ 0; infinite without noise.

    Raises:
        ConfigError: dp-accounting is not installed.
    """
    if rounds == 0:
        return 0.0
    if noise_multiplier == 0:
        return math.inf
    try:
        from dp_accounting import get_epsilon_gaussian
    except ImportError:
        raise ConfigError(
            "privacy.dp.mode needs dp-accounting 0.6 or newer, which is not installed: "
            "pip install 'fedtag[dp]', or set privacy.dp.mode = off"
        ) from None
    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(rounds), delta))


def distributed_sensitivity(clip: float, dimension: int, scale_bits: int) -> float:
    """S + √d · 2^(−s−1): rounding to fixed point moves each coordinate by up to half a step of 2^−s.

    Args:
        clip: S, the L2 norm to which an update is clipped.
        dimension: d, the number of coordinates of a sum.
        scale_bits: s, binary digits after the point.
    """
    return clip + math.sqrt(dimension) * 2.0 ** -(scale_bits + 1)
