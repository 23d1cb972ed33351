"""Real vectors as integers modulo 2^64, whose sums lose nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, UInt64

from fedtag.common.errors import ConfigError, DivergenceError


@dataclass(frozen=True)
class FixedPoint:
    """x ↦ round(x · 2^scale_bits) in two's complement, in Z_2^64.

    Args:
        scale_bits: binary digits after the point, 1 to 62.
        limit: largest absolute value of one coordinate, above 0, noise included.

    Raises:
        ConfigError: two clients could not be added without overflow.
    """

    scale_bits: int
    limit: float

    def __post_init__(self) -> None:
        if not (1 <= self.scale_bits <= 62 and 0 < self.limit < 2.0**62 and self.most_clients >= 2):
            raise ConfigError(
                f"scale-bits {self.scale_bits} and limit {self.limit:g} leave no room for a sum in 64 bits: "
                "lower one of them"
            )

    @property
    def most_clients(self) -> int:
        """Clients whose sum cannot wrap: N · ⌈limit · 2^scale_bits⌉ < 2^63.

        No encoded value exceeds ⌈limit · 2^scale_bits⌉ in absolute value, because rounding is monotone.
        """
        return (2**63 - 1) // math.ceil(self.limit * 2.0**self.scale_bits)

    def encode(self, values: Float64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
        """The nearest integers, ties to even.

        Raises:
            DivergenceError: a value is not finite, or beyond the limit.
        """
        scaled = np.abs(values)
        largest = float(scaled.max(initial=0.0))  # NaN if any is
        if not largest <= self.limit:
            raise DivergenceError(
                f"a coordinate of {largest:g} cannot be masked, the limit is {self.limit:g}: "
                "raise privacy.limit, or lower the learning rate"
            )
        np.multiply(values, 2.0**self.scale_bits, out=scaled)
        np.rint(scaled, out=scaled)
        return scaled.astype(np.int64).view(np.uint64)

    def decode(self, total: UInt64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """The real numbers that a sum stands for; rounds to float64, as any sum of floats does."""
        real = total.view(np.int64).astype(np.float64)
        real *= 2.0**-self.scale_bits
        return real

    def error_bound(self, clients: int) -> float:
        """Largest absolute error of a coordinate of the sum of so many clients.

        Multiplying by 2^scale_bits is exact in float64, rounding to the nearest integer moves each client's
        coordinate by at most 1/2, that is 2^−(scale_bits+1) after decoding, and integers are added without
        error as long as nothing wraps (`most_clients`). So the sum is within clients · 2^−(scale_bits+1).
        Where a sum exceeds 2^(53−scale_bits), `decode` adds the rounding of float64, at most 2^−53 of the sum.
        """
        return clients * 2.0 ** -(self.scale_bits + 1)
