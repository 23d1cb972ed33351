"""Local optimisation: some epochs of full-batch steps from the received model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from common.errors import DivergenceError


@dataclass(frozen=True)
class Training:
    """What a client did: the loss of its last step, without the proximal term, and the number of steps."""

    loss: float
    steps: int


def scheduled_rate(rate: float, schedule: str, final: float, round_number: int, rounds: int) -> float:
    """The step size of a round.

    Args:
        rate: of round 1, and of all rounds under the schedule `constant`.
        schedule: `constant`, or `cosine`: rate · (final + (1 − final) · ½ (1 + cos(π (round − 1) / (rounds − 1)))).
        final: share of the rate in the last round, in [0, 1].
        round_number: from 1 to rounds.
        rounds: of the run.
    """
    if schedule == "constant" or rounds == 1:
        return rate
    wave = 0.5 * (1 + math.cos(math.pi * (round_number - 1) / (rounds - 1)))
    return rate * (final + (1 - final) * wave)


def optimiser(
    parameters: Iterable[nn.Parameter], kind: str, rate: float, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """A fresh optimiser: `adam` or `sgd`."""
    if kind == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay, fused=True)
    return torch.optim.SGD(parameters, lr=rate, momentum=momentum, weight_decay=weight_decay, fused=True)


def optimise(
    model: nn.Module,
    loss: Callable[[], Tensor],
    stepper: torch.optim.Optimizer,
    epochs: int,
    prox_mu: float = 0.0,
) -> Training:
    """Minimise loss() + prox_mu / 2 ‖w − w_start‖² (FedProx, Li et al., 2020) by `epochs` steps, in place.

    Args:
        model: changed in place; its values on entry are w_start.
        loss: the loss of the model as it stands, one full batch.
        stepper: optimiser over the model's parameters.
        epochs: at least 1.
        prox_mu: at least 0.

    Raises:
        DivergenceError: if the loss is not finite.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    start = [parameter.detach().clone() for parameter in trainable] if prox_mu else []
    value = torch.zeros(())
    for _ in range(epochs):
        stepper.zero_grad(set_to_none=True)
        value = loss()
        objective = value
        if prox_mu:
            distance = sum(((w - w0) ** 2).sum() for w, w0 in zip(trainable, start, strict=True))
            objective = value + prox_mu / 2 * distance
        if not bool(torch.isfinite(objective)):
            raise DivergenceError(
                f"training diverged (the loss is {float(objective.detach())}): lower train.learning-rate, "
                "train.weight-decay or train.prox-mu, or scale the features down"
            )
        objective.backward()
        stepper.step()
    return Training(float(value.detach()), epochs)
