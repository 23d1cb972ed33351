from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvgM, FedYogi
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.errors import ConfigError
from fedtag.server.strategies.flower import aggregated, array_record, float64_arrays
from fedtag.server.strategies.optimisers import server_step

SHAPES = {"w": (3, 2), "scale": (), "b": (4,)}
KINDS = ("momentum", "adam", "yogi", "adagrad")
SETTINGS: dict[str, float] = {"rate": 0.05, "momentum": 0.8, "second_moment": 0.95, "adaptivity": 1e-2}
Tensors = dict[str, torch.Tensor]


def drawn(seed: int, dtype: torch.dtype = torch.float64) -> Tensors:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator, dtype=dtype) for name, shape in SHAPES.items()}


def stepped(
    kind: str, model: Tensors, steps: list[Tensors], **settings: float
) -> tuple[list[Tensors], Tensors]:
    """The models after each step; the memory goes through a file each time, as in a checkpoint."""
    models, memory = [], {}
    for step in steps:
        model, memory = server_step(kind, model, step, memory, **{**SETTINGS, **settings})
        memory = safetensors.torch.load(safetensors.torch.save(memory))
        models.append(model)
    return models, memory


def by_formula(
    kind: str,
    model: Tensors,
    steps: list[Tensors],
    rate: float,
    momentum: float,
    second_moment: float,
    adaptivity: float,
) -> list[dict[str, Any]]:
    """Reddi et al., 2021, Algorithm 2, and Hsu et al., 2019, one number at a time."""
    models = [{name: np.empty(shape) for name, shape in SHAPES.items()} for _ in steps]
    for name in SHAPES:
        for place in np.ndindex(*SHAPES[name]):
            w, m, v = float(model[name][place]), 0.0, 0.0
            for t, step in enumerate(steps, start=1):
                d = float(step[name][place])
                if kind == "momentum":
                    m = momentum * m + d
                    w += rate * m
                else:
                    decay = 0.0 if kind == "adagrad" else momentum
                    m = decay * m + (1 - decay) * d
                    if kind == "adam":
                        v = second_moment * v + (1 - second_moment) * d * d
                    elif kind == "yogi":
                        v -= (1 - second_moment) * d * d * np.sign(v - d * d)
                    else:
                        v += d * d
                    corrected = rate
                    if kind == "adam":
                        corrected *= (1 - second_moment ** (t + 1)) ** 0.5 / (1 - momentum ** (t + 1))
                    w += corrected * m / (v**0.5 + adaptivity)
                models[t - 1][name][place] = w
    return models


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(
    rate=st.floats(1e-3, 2),
    momentum=st.floats(0, 0.99),
    second_moment=st.floats(0, 0.999),
    adaptivity=st.floats(1e-4, 1),
    seed=st.integers(0, 10**6),
)
def test_steps_equal_the_published_formulas(
    kind: str, rate: float, momentum: float, second_moment: float, adaptivity: float, seed: int
) -> None:
    chosen = {
        "rate": rate,
        "momentum": momentum,
        "second_moment": second_moment,
        "adaptivity": adaptivity,
    }
    model, steps = drawn(seed), [drawn(seed + k) for k in range(1, 6)]
    models, _ = stepped(kind, model, steps, **chosen)
    for ours, theirs in zip(models, by_formula(kind, model, steps, **chosen), strict=True):
        for name in SHAPES:
            np.testing.assert_allclose(ours[name].numpy(), theirs[name], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", ["momentum", "adagrad"])
def test_torch_takes_the_same_steps(kind: str) -> None:
    model, steps = drawn(0), [drawn(k) for k in range(1, 8)]
    models, _ = stepped(kind, model, steps)
    parameters = {name: value.clone().requires_grad_() for name, value in model.items()}
    optimiser: torch.optim.Optimizer
    if kind == "momentum":
        optimiser = torch.optim.SGD(
            parameters.values(), lr=SETTINGS["rate"], momentum=SETTINGS["momentum"], foreach=False
        )
    else:
        optimiser = torch.optim.Adagrad(
            parameters.values(), lr=SETTINGS["rate"], eps=SETTINGS["adaptivity"], foreach=False
        )
    for step, ours in zip(steps, models, strict=True):
        for name, parameter in parameters.items():
            parameter.grad = -step[name]
        optimiser.step()
        for name, parameter in parameters.items():
            torch.testing.assert_close(ours[name], parameter.detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_objects_with_memory_equal_one_flower_object_over_all_rounds(kind: str) -> None:
    rate, momentum, second, adaptivity = SETTINGS.values()
    strategy = {
        "momentum": FedAvgM(server_learning_rate=rate, server_momentum=momentum),
        "adam": FedAdam(eta=rate, beta_1=momentum, beta_2=second, tau=adaptivity),
        "yogi": FedYogi(eta=rate, beta_1=momentum, beta_2=second, tau=adaptivity),
        "adagrad": FedAdagrad(eta=rate, tau=adaptivity),
    }[kind]
    model, steps = drawn(10), [drawn(k) for k in range(11, 21)]
    models, _ = stepped(kind, model, steps)
    current = float64_arrays(model, list(SHAPES))
    for round_number, (step, ours) in enumerate(zip(steps, models, strict=True), start=1):
        # What Flower's configure_train does before each round.
        if isinstance(strategy, FedAvgM):
            strategy.current_arrays = strategy.current_arrays or array_record(current)
        else:
            strategy.current_arrays = current
        trained = {name: current[name] + step[name].numpy() for name in SHAPES}
        current = aggregated(strategy, round_number, [trained])
        for name in SHAPES:
            np.testing.assert_array_equal(ours[name].numpy(), current[name])


def test_a_step_without_optimiser_is_scaled_and_remembers_nothing() -> None:
    model, step = drawn(0, torch.float32), drawn(1, torch.float32)
    moved, memory = server_step("none", model, step, {}, **{**SETTINGS, "rate": 1.0})
    assert memory == {}
    assert all(torch.equal(moved[name], model[name] + step[name]) for name in SHAPES)
    half, _ = server_step("none", model, step, {}, **{**SETTINGS, "rate": 0.5})
    torch.testing.assert_close(half["w"], model["w"] + step["w"] / 2)
    plain, memory = server_step("momentum", model, step, {}, **{**SETTINGS, "rate": 1.0, "momentum": 0.0})
    assert memory == {}
    torch.testing.assert_close(plain, moved)


@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_dtypes_stay_counts_are_added_and_arguments_are_left_alone(kind: str) -> None:
    def extended(tensors: Tensors, count: int, switch: bool) -> Tensors:
        more = {"steps": torch.tensor(count), "on": torch.tensor([switch, False])}
        return {**{name: value.to(torch.bfloat16) for name, value in tensors.items()}, **more}

    model, steps = extended(drawn(0), 2**53 + 1, True), [extended(drawn(k), 7, True) for k in (1, 2)]
    kept = {name: value.clone() for name, value in model.items()}
    models, memory = stepped(kind, model, steps)
    assert {n: v.dtype for n, v in models[-1].items()} == {n: v.dtype for n, v in model.items()}
    assert int(models[-1]["steps"]) == 2**53 + 15
    assert [m["on"].tolist() for m in models] == [[False, False], [True, False]]
    assert all(torch.equal(model[name], kept[name]) for name in model)
    assert not any("steps" in name.split("/")[1:] or "on" in name.split("/") for name in memory)
    before = {name: value.clone() for name, value in memory.items()}
    server_step(kind, models[-1], steps[0], memory, **SETTINGS)
    assert all(torch.equal(memory[name], before[name]) for name in memory)
    counts = {name: value for name, value in model.items() if not value.is_floating_point()}
    only, memory = server_step(kind, counts, counts, {}, **SETTINGS)
    assert int(only["steps"]) == 2 * (2**53 + 1)
    assert memory == {}


def test_adam_counts_its_own_steps() -> None:
    models, memory = stepped("adam", drawn(0), [drawn(1), drawn(2), drawn(3)])
    assert int(memory["steps"]) == 3
    assert memory["first/w"].dtype is torch.float64
    forgotten, _ = server_step("adam", models[-1], drawn(4), {}, **SETTINGS)
    going_on, _ = server_step("adam", models[-1], drawn(4), memory, **SETTINGS)
    assert not torch.equal(forgotten["w"], going_on["w"])


def test_an_unknown_optimiser_is_refused() -> None:
    with pytest.raises(ConfigError, match="server-optimiser = lamb is unknown: use none, momentum"):
        server_step("lamb", drawn(0), drawn(1), {}, **SETTINGS)
