"""Temperature scaling of confidences (Guo et al., 2017)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

_LOWEST, _HIGHEST = -3.0, 3.0
_STEPS = 40


def temperature(logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"]) -> float:
    """T > 0 that minimises the cross-entropy of logits / T, by golden-section search over log T in [-3, 3].

    The objective is convex in 1 / T, hence unimodal in log T. On nodes that the model was trained on, the
    result is too small if the model has fitted them: it is then still a common scale, not a guarantee.

    Args:
        logits: of labelled nodes; none gives T = 1.
        labels: their classes.
    """
    if labels.numel() == 0:
        return 1.0

    def cost(log_temperature: float) -> float:
        scale = float(torch.tensor(log_temperature, dtype=torch.float64).exp())
        return float(functional.cross_entropy(logits.double() / scale, labels))

    ratio = (5**0.5 - 1) / 2
    low, high = _LOWEST, _HIGHEST
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = cost(right)
    return float(torch.tensor((low + high) / 2, dtype=torch.float64).exp())
