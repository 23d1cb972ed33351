"""The L2 norm of a contribution, and contributions scaled down to a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from fedtag.common.errors import DivergenceError

# Far more than a sum of 10^9 squares in float64 is off by, relatively.
NORM_ERROR = 1e-12


def l2_norm(tensors: Mapping[str, Tensor]) -> float:
    """The L2 norm of all floating-point tensors together, summed in float64; 0 without any, NaN if any value is."""
    real = [value for value in tensors.values() if value.is_floating_point()]
    return math.sqrt(sum(float(value.detach().double().square().sum()) for value in real))


def clipped(tensors: Mapping[str, Tensor], bound: float) -> tuple[dict[str, Tensor], float]:
    """Contributions whose norm is at most `bound`: Δ · min(1, bound / ‖Δ‖₂) (McMahan et al., 2018, Eq. 1).

    The bound holds after rounding to the tensors' own dtypes, since a privacy guarantee rests on it. Tensors of
    integers and booleans pass as they are and are not covered.

    Args:
        tensors: left as they are.
        bound: above 0.

    Returns:
        The tensors, and the norm that they had before.

    Raises:
        DivergenceError: the norm is not finite, so that no scale would help.
    """
    norm = l2_norm(tensors)
    if not math.isfinite(norm):
        raise DivergenceError(
            f"an update of norm {norm} cannot be clipped: lower train.learning-rate, or scale the features down"
        )
    if norm <= bound:
        return dict(tensors), norm
    # Rounding adds at most half an ε to each value, so a whole one less keeps the norm below the bound; in float64
    # the error of the norm itself is the larger one.
    rounding = max(torch.finfo(value.dtype).eps for value in tensors.values() if value.is_floating_point())
    scale = bound / norm * (1 - max(rounding, NORM_ERROR))
    return {
        name: (value.double() * scale).to(value.dtype) if value.is_floating_point() else value
        for name, value in tensors.items()
    }, norm
