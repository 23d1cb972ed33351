"""Temperature scaling of confidences (Guo et al., 2017)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn import functional

_RANGE = -3.0, 3.0
_TOLERANCE = 1e-8


def temperature(logits: Float[Tensor, "nodes classes"], labels: Int[Tensor, " nodes"]) -> float:
    """T > 0 that minimises the cross-entropy of logits / T, with log T in [-3, 3].

    The objective is convex in 1 / T, hence unimodal in log T. On nodes that the model was trained on, the
    result is too small if the model has fitted them: it is then still a common scale, not a guarantee.

    Args:
        logits: of labelled nodes; none gives T = 1.
        labels: their classes.
    """
    if labels.numel() == 0:
        return 1.0
    exact = logits.to(torch.float64)

    def cost(log_temperature: float) -> float:
        return float(functional.cross_entropy(exact / math.exp(log_temperature), labels))

    found = minimize_scalar(cost, bounds=_RANGE, method="bounded", options={"xatol": _TOLERANCE})
    return math.exp(found.x)
