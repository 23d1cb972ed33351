"""Training of a matching model on a batch."""

from __future__ import annotations

import torch

from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.optimisers import Adam
from fedtag.common.synthetic.gradients import Batch, Weights, mean_gradients


@torch.no_grad()
def fitted(weights: Weights, batch: Batch, steps: int, rate: float, weight_decay: float = 0.0) -> Weights:
    """Weights after some steps of Adam on the mean cross-entropy; the given ones stay as they are.

    Args:
        weights: to begin with.
        batch: full batch of every step.
        steps: at least 0.
        rate: step size, above 0.
        weight_decay: L2 penalty, at least 0.

    Raises:
        DivergenceError: the weights are not finite.
    """
    moving = [weight.clone().requires_grad_() for weight in weights]
    adam = Adam(moving, lr=rate, weight_decay=weight_decay, fused=True)
    for _ in range(steps):
        for weight, gradient in zip(moving, mean_gradients(tuple(moving), batch), strict=True):
            weight.grad = gradient
        adam.step()
    if not all(bool(torch.isfinite(weight).all()) for weight in moving):
        raise DivergenceError(
            "a matching model diverged: lower condenser.model-rate, or scale the features down"
        )
    return tuple(weight.detach() for weight in moving)
