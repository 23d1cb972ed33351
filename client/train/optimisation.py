"""Local optimisation: some steps from the received model, each on the whole graph or on a batch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.errors import DivergenceError
from fedtag.common.models.gradients import limit_gradient
from fedtag.common.numerics.optimisers import SGD, Adam

LARGEST_NORMALISER = 1e9
AHEAD = 2
"""Steps that may have been launched and not done when it is asked whether the time is over."""


@dataclass(frozen=True)
class Training:
    """What a client did.

    Args:
        loss: of its last step, without the proximal term.
        steps: taken, at least 1.
        normaliser: a_i, what these steps amount to in steps of plain gradient descent (`effective_steps`).
    """

    loss: float
    steps: int
    normaliser: float


def effective_steps(rates: Sequence[float], momentum: float = 0.0, prox_mu: float = 0.0) -> float:
    """a_i of FedNova (Wang et al., 2020): the length of the local walk under unit gradients, in first step sizes.

    v ← ρ v + 1 + μ d, d ← d − η_k v from d = v = 0; a_i = −d / η_1. At one step size it is τ for plain descent,
    (τ − ρ (1 − ρ^τ) / (1 − ρ)) / (1 − ρ) with momentum, (1 − (1 − ημ)^τ) / (ημ) with the proximal term.
    Weight decay is left out: it pulls towards zero rather than along the gradients, and by how much depends on
    the weights.

    Args:
        rates: step sizes η_k of the steps taken, at least 0.
        momentum: ρ in [0, 1).
        prox_mu: μ, at least 0.

    Returns:
        0 without any step, or if the first has size 0; negative or huge only if ημ is above 1.
    """
    if not rates or rates[0] == 0:
        return 0.0
    first = rates[0]
    velocity, walked = 0.0, 0.0
    for rate in rates:
        velocity = momentum * velocity + 1 - prox_mu * first * walked
        walked += rate / first * velocity
    return walked


def local_epochs(epochs: int, extra: int, threshold: float, accuracy: float | None) -> int:
    """Epochs of adaptive local work: a client whose received model does badly there works longer.

    Args:
        epochs: of every client.
        extra: further ones of a client under the threshold.
        threshold: in [0, 1].
        accuracy: of the received model on the client's validation nodes; None where these are too few to tell.
    """
    return epochs + extra if accuracy is not None and accuracy < threshold else epochs


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
    parameters: Iterable[Tensor], kind: str, rate: float | Tensor, momentum: float, weight_decay: float
) -> torch.optim.Optimizer:
    """A fresh optimiser: `adam` or `sgd`.

    Args:
        parameters: that it moves, on one device.
        kind: of it.
        rate: step size; a tensor on the parameters' device where steps are to be replayed with another one.
        momentum: of SGD, in [0, 1).
        weight_decay: at least 0.
    """
    # What is replayed counts its steps on the device.
    replayed = isinstance(rate, Tensor) and rate.device.type != "cpu"
    stepper: torch.optim.Optimizer
    if kind == "adam":
        stepper = Adam(parameters, weight_decay=weight_decay, fused=True, capturable=replayed)
    else:
        stepper = SGD(parameters, momentum=momentum, weight_decay=weight_decay, fused=True)
    # Set here, since the optimiser would take a copy of a tensor.
    stepper.param_groups[0]["lr"] = rate
    return stepper


def optimise(
    model: nn.Module,
    loss: Callable[[], Tensor],
    stepper: torch.optim.Optimizer,
    steps: int,
    prox_mu: float = 0.0,
    until: float | None = None,
    before_step: Callable[[], None] | None = None,
) -> Training:
    """`walk`, and what a client did by it.

    Raises:
        DivergenceError: if a loss is not finite.
    """
    losses = walk(model, loss, stepper, steps, prox_mu, until, before_step)
    settings = stepper.param_groups[0]
    return training_of(losses, float(settings["lr"]), settings.get("momentum"), prox_mu)


def walk(
    model: nn.Module,
    loss: Callable[[], Tensor],
    stepper: torch.optim.Optimizer,
    steps: int,
    prox_mu: float = 0.0,
    until: float | None = None,
    before_step: Callable[[], None] | None = None,
) -> Float[Tensor, "steps 2"]:
    """Minimise loss() + prox_mu / 2 ‖w − w_start‖² (Li et al., 2020) by so many steps, in place.

    The gradient of a model that sums over neighbours is cut before each step (`limit_gradient`). A device is not waited
    for.

    Args:
        model: changed in place; its values on entry are w_start.
        loss: the loss of the model as it stands, of the next batch or of all.
        stepper: fresh optimiser over the model's parameters.
        steps: at least 1.
        prox_mu: at least 0.
        until: time of the monotonic clock after which no further step begins; the first is always taken.
        before_step: called before each step, to move what the stepper does not.

    Returns:
        on the model's device, of each step that was taken the loss and, with the proximal term, what was minimised.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    start = [parameter.detach().clone() for parameter in trainable] if prox_mu else []
    losses: list[Tensor] = []
    for _ in range(steps):
        if losses and until is not None and _is_late(losses, until):
            break
        if before_step is not None:
            before_step()
        stepper.zero_grad(set_to_none=True)
        value = loss()
        objective = value
        if prox_mu:
            distance = sum(((w - w0) ** 2).sum() for w, w0 in zip(trainable, start, strict=True))
            objective = value + prox_mu / 2 * distance
        objective.backward()
        limit_gradient(model)
        stepper.step()
        losses.append(torch.stack([value.detach(), objective.detach()]))
    return torch.stack(losses)


def _is_late(losses: Sequence[Tensor], until: float) -> bool:
    """Whether the time is over, asked of a device when it is no more than `AHEAD` steps behind."""
    if len(losses) > AHEAD and losses[0].device.type != "cpu":
        losses[-1 - AHEAD].tolist()
    return time.monotonic() >= until


def training_of(
    losses: Float[Tensor, "steps 2"], rate: float, momentum: float | None, prox_mu: float
) -> Training:
    """What a client did by a walk.

    Args:
        losses: of `walk`.
        rate: of its steps.
        momentum: of SGD; None: steps of Adam.
        prox_mu: at least 0.

    Raises:
        DivergenceError: if one is not finite.
    """
    told = losses.tolist()
    for _, objective in told:
        if not math.isfinite(objective):
            raise DivergenceError(
                f"training diverged (the loss is {objective}): lower train.learning-rate, "
                "train.weight-decay or train.prox-mu, or scale the features down"
            )
    return Training(told[-1][0], len(told), normaliser([rate] * len(told), momentum, prox_mu))


def normaliser(rates: Sequence[float], momentum: float | None, prox_mu: float) -> float:
    """a_i of steps of these sizes: `effective_steps` of SGD, their number where there is no momentum, as with Adam.

    That is a heuristic, since Adam's steps do not add up gradients.

    0 where that describes no walk.
    """
    if momentum is None:
        return float(len(rates))
    steps = effective_steps(rates, momentum, prox_mu)
    # Where the proximal term overshoots, no number of steps describes the walk, and the client is left out.
    return steps if 0 < steps <= LARGEST_NORMALISER else 0.0
