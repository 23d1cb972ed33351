"""Server optimisers, by Flower's own strategies: the combined update is the gradient of a step on the server."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvgM, FedYogi
from numpy.typing import ArrayLike
from torch import Tensor

from fedtag.common.errors import ConfigError
from fedtag.common.wire.records import Content, prefixed
from fedtag.server.strategies.flower import Arrays, aggregated, array_record, float64_arrays

MOMENTUM, FIRST, SECOND, STEPS = "momentum", "first", "second", "steps"

Tensors = dict[str, Tensor]


def server_step(
    kind: str,
    model: Mapping[str, Tensor],
    step: Mapping[str, Tensor],
    memory: Mapping[str, Tensor],
    rate: float,
    momentum: float,
    second_moment: float,
    adaptivity: float,
) -> tuple[Tensors, Tensors]:
    """The next global model, and what the optimiser must know at the next step.

    With Δ the step, η the rate, β₁ the momentum, β₂ the second moment, τ the adaptivity, and zeros before the
    first step (m = Δ for momentum's first):

    - `none`: w + η Δ.
    - `momentum` (FedAvgM, Hsu et al., 2019): m ← β₁ m + Δ; w + η m.
    - `adam`, `yogi`, `adagrad` (Reddi et al., 2021, Algorithm 2): m ← β₁ m + (1 − β₁) Δ; w + η m / (√v + τ) with
      v ← β₂ v + (1 − β₂) Δ² for adam; v − (1 − β₂) Δ² sign(v − Δ²) for yogi; v + Δ² and β₁ = 0 for adagrad.
      Flower corrects adam's η by √(1 − β₂^(t+1)) / (1 − β₁^(t+1)) at step t = 1, 2, …; the paper does not.

    Flower's strategies are made anew for each step from `memory`, so that a process which has just started goes
    on exactly where another one stopped. They compute in float64. An integer entry of the step is added as it
    is, a true one flips a boolean; neither is scaled.

    Args:
        kind: of `aggregation.server-optimiser`.
        model: the global model.
        step: the combined update; names, shapes and dtypes of the model, finite.
        memory: what the step before returned; empty at the first.
        rate: η > 0.
        momentum: β₁ in [0, 1).
        second_moment: β₂ in [0, 1).
        adaptivity: τ > 0.

    Returns:
        The model in its own dtypes, and the memory: moments in float64, by their kind and tensor.

    Raises:
        ConfigError: an unknown kind.
    """
    names = [name for name, value in model.items() if value.is_floating_point()]
    if kind == "none" or not names:
        moved = {name: model[name] + rate * step[name] for name in names}
        return _whole(model, step, moved), {}
    before, change = float64_arrays(model, names), float64_arrays(step, names)
    after = {name: np.asarray(before[name] + change[name]) for name in names}
    if kind == "momentum":
        arrays, kept = _momentum(before, after, memory, rate, momentum)
    else:
        arrays, kept = _adaptive(kind, before, after, memory, rate, momentum, second_moment, adaptivity)
    moved = {name: torch.tensor(value).to(model[name].dtype) for name, value in arrays.items()}
    return _whole(model, step, moved), kept


def _momentum(
    before: Arrays, after: Arrays, memory: Mapping[str, Tensor], rate: float, momentum: float
) -> tuple[Arrays, Tensors]:
    strategy = FedAvgM(server_learning_rate=rate, server_momentum=momentum)
    strategy.current_arrays = array_record(before)
    if memory:
        # Flower keeps the sum of w − w', the opposite of the updates, in the order of the arrays.
        strategy.momentum_vector = list(_recalled(memory, MOMENTUM, before).values())
    arrays = aggregated(strategy, 1, [after])
    # Without momentum Flower keeps nothing.
    vector = strategy.momentum_vector or []
    return arrays, _remembered(MOMENTUM, dict(zip(before, vector, strict=False)))


def _adaptive(
    kind: str,
    before: Arrays,
    after: Arrays,
    memory: Mapping[str, Tensor],
    rate: float,
    momentum: float,
    second_moment: float,
    adaptivity: float,
) -> tuple[Arrays, Tensors]:
    strategy: FedAdam | FedYogi | FedAdagrad
    match kind:
        case "adam":
            strategy = FedAdam(eta=rate, beta_1=momentum, beta_2=second_moment, tau=adaptivity)
        case "yogi":
            strategy = FedYogi(eta=rate, beta_1=momentum, beta_2=second_moment, tau=adaptivity)
        case "adagrad":
            strategy = FedAdagrad(eta=rate, tau=adaptivity)
        case _:
            raise ConfigError(
                f"aggregation.server-optimiser = {kind} is unknown: use none, momentum, adam, yogi or adagrad"
            )
    strategy.current_arrays = dict(before)
    if memory:
        strategy.m_t, strategy.v_t = (_recalled(memory, moment, before) for moment in (FIRST, SECOND))
    # Steps are counted here, because a round without contributors takes none.
    number = int(memory[STEPS]) + 1 if memory else 1
    arrays = aggregated(strategy, number, [after])
    assert strategy.m_t is not None
    assert strategy.v_t is not None
    moments = _remembered(FIRST, strategy.m_t) | _remembered(SECOND, strategy.v_t)
    return arrays, {**moments, STEPS: torch.tensor(number)}


def _recalled(memory: Mapping[str, Tensor], moment: str, like: Arrays) -> Arrays:
    return float64_arrays(Content(memory).section(moment), list(like))


def _remembered(moment: str, arrays: Mapping[str, ArrayLike]) -> Tensors:
    # Arithmetic on arrays without axes gives NumPy scalars.
    return prefixed(moment, {name: torch.tensor(np.asarray(value)) for name, value in arrays.items()})


def _whole(model: Mapping[str, Tensor], step: Mapping[str, Tensor], moved: Tensors) -> Tensors:
    def counted(name: str, value: Tensor) -> Tensor:
        return value ^ step[name] if value.dtype is torch.bool else value + step[name]

    return {name: moved[name] if name in moved else counted(name, value) for name, value in model.items()}
