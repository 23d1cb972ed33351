"""What differential privacy guarantees after so many rounds.

Neighbouring federations differ in one institution, whose contribution is replaced by zero; it is the unit of
privacy. All clients take part in every round, so nothing is gained by sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.numerics.accounting import distributed_sensitivity, epsilon

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
