"""The weighted mean of updates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def weighted_mean(
    updates: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Σ_i w_i Δ_i, summed in float64 in the order of client names, so that the order of arrival leaves no trace.

    A mean of integers or booleans has no meaning: of these, the client of the largest weight decides, the
    first by name of equal ones. A tensor that some clients lack is averaged over the others, their weights
    renormalised; one whose users all weigh nothing is not in the mean.

    Args:
        updates: by client; tensors of one name have one shape.
        weights: by client; sum 1; every client has an update.
    """
    clients = sorted(weights)
    mean: dict[str, Tensor] = {}
    for name in dict.fromkeys(name for client in clients for name in updates[client]):
        users = [client for client in clients if name in updates[client]]
        # Where all use it the weights stay as they are, to the last bit.
        share = math.fsum(weights[client] for client in users) if len(users) < len(clients) else 1.0
        if share <= 0:
            continue
        heaviest = max(users, key=lambda client: weights[client])
        template = updates[heaviest][name]
        if not template.is_floating_point():
            mean[name] = template.clone()
            continue
        total = torch.zeros(template.shape, dtype=torch.float64)
        for client in users:
            total += weights[client] / share * updates[client][name].double()
        mean[name] = total.to(template.dtype)
    return mean
