"""Normalisation of updates by the local work behind them (FedNova, Wang et al., 2020; Liu et al., Eq. 13)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor

from fedtag.common.models.parameters import moved_by_steps
from fedtag.common.settings.train import LEAST_BATCH, TrainConfig

LEAST_NORMALISER = 1e-3
"""Effective steps below which a client counts as one that took none; dividing by less would only amplify."""


@dataclass(frozen=True)
class Normalisation:
    """How updates of unequal local work are brought together.

    Args:
        weights: of the clients that took a step, sum 1.
        factors: τ_eff / a_i of the same clients.
        effective_steps: τ_eff = Σ w_i a_i, of what is believed; 0 without any client.
    """

    weights: dict[str, float]
    factors: dict[str, float]
    effective_steps: float


def fednova(
    weights: Mapping[str, float],
    normalisers: Mapping[str, float],
    most: Mapping[str, float] = MappingProxyType({}),
    believed: Mapping[str, float] = MappingProxyType({}),
) -> Normalisation:
    """Weights and factors with which Σ w_i (τ_eff / a_i) Δ_i is the step of Eq. 13, τ_eff = Σ w_i a_i.

    With equal a_i all factors are 1. `weighted_mean(scaled(updates, factors), weights)` is the step; a robust
    rule takes the scaled updates.

    Args:
        weights: by client, at least 0, with a sum above 0 or empty.
        normalisers: a_i by client; one that is missing counts as 0.
        most: the largest a_i that a client can have by its own word (`largest_normaliser`), by client.
        believed: the largest a_i that counts in τ_eff, by client: since that scales everybody's update, one client that
            claims much would otherwise decide the length of the step.

    Returns:
        Without clients whose a_i is 0 or beyond `most`, the weights of the others renormalised.
    """
    steps = {client: normalisers.get(client, 0.0) for client in sorted(weights)}
    kept = {client: a for client, a in steps.items() if LEAST_NORMALISER <= a <= most.get(client, math.inf)}
    total = math.fsum(weights[client] for client in kept)
    if total == 0:
        return Normalisation({}, {}, 0.0)
    shares = {client: weights[client] / total for client in kept}
    counted = {client: min(a, believed.get(client, math.inf)) for client, a in kept.items()}
    effective = math.fsum(weights[client] * a for client, a in counted.items()) / total
    return Normalisation(shares, {client: effective / a for client, a in kept.items()}, effective)


def scaled(
    updates: Mapping[str, Mapping[str, Tensor]], factors: Mapping[str, float]
) -> dict[str, dict[str, Tensor]]:
    """The updates of the clients that have a factor, multiplied by it; integer and boolean tensors stay, and so do
    those that the steps do not move.
    """
    return {
        client: {
            name: value * factor if value.is_floating_point() and moved_by_steps(name) else value
            for name, value in updates[client].items()
        }
        for client, factor in factors.items()
    }


def largest_normaliser(train: TrainConfig, nodes: int = 0) -> float:
    """The most effective steps that the settings allow: a step counts 1, or 1 / (1 − ρ) with momentum ρ.

    Without the proximal term plain descent reaches it; rounding has some room.

    Args:
        train: settings of the run.
        nodes: from which the client may learn at the most, on which the number of its batches depends.
    """
    size = train.batch_size if isinstance(train.batch_size, int) else LEAST_BATCH
    batches = max(1, math.ceil(nodes / size)) if size else 1
    steps = (train.epochs + train.extra_epochs) * batches * (1 + 1e-6)
    return steps / (1 - train.momentum) if train.optimizer == "sgd" else steps


def believable(nodes: Mapping[str, int]) -> dict[str, int]:
    """Numbers of nodes that clients say they have, as far as they lengthen the step of all: of three or more, nobody's
    more than all others' together, since a claim of many nodes would allow as many steps.
    """
    total = sum(nodes.values())
    return {client: min(n, total - n) if len(nodes) > 2 else n for client, n in nodes.items()}
