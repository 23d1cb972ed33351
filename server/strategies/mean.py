"""The weighted mean of updates, and the running average of models."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def weighted_mean(
    updates: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Σ_i w_i Δ_i, summed in float64 in the order of client names, so that the order of arrival leaves no trace.

    A mean of integers or booleans has no meaning: of these, the client of the largest weight decides, the
    first by name of equal ones.

    Args:
        updates: by client; all with the same names and shapes.
        weights: by client; sum 1; every client has an update.
    """
    clients = sorted(weights)
    heaviest = max(clients, key=lambda client: weights[client])
    mean: dict[str, Tensor] = {}
    for name, template in updates[clients[0]].items():
        if not template.is_floating_point():
            mean[name] = updates[heaviest][name].clone()
            continue
        total = torch.zeros(template.shape, dtype=torch.float64)
        for client in clients:
            total += weights[client] * updates[client][name].double()
        mean[name] = total.to(template.dtype)
    return mean


def running_average(
    average: Mapping[str, Tensor], model: Mapping[str, Tensor], decay: float, count: int
) -> dict[str, Tensor]:
    """The exponential average of the first `count` models, in which the initial model has no part.

    Σ_s decay^(count − s) ω_s / Σ_s decay^(count − s), from the average of the models before; the first
    average is the first model. Integer and boolean tensors are those of the newest model.

    Args:
        average: of count − 1 models; without meaning for count 1.
        model: the newest, ω_count.
        decay: in (0, 1).
        count: at least 1.
    """
    kept = decay * (1 - decay ** (count - 1)) / (1 - decay**count)
    return {
        name: kept * average[name] + (1 - kept) * value if value.is_floating_point() else value
        for name, value in model.items()
    }
