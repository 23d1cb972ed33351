"""What Gaussian noise on sums guarantees after so many of them, by arithmetic that both sides do alike."""

from __future__ import annotations

import math

from fedtag.common.errors import ConfigError


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
