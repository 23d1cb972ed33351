from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedtag.client.train.optimisation import (
    effective_steps,
    local_epochs,
    optimise,
    optimiser,
    scheduled_rate,
)
from fedtag.common.errors import DivergenceError


class Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([2.0, -1.0]))


def quadratic(model: Point) -> torch.Tensor:
    return (model.w**2).sum() / 2


def test_gradient_descent_is_the_closed_form() -> None:
    model = Point()
    told = optimise(model, lambda: quadratic(model), optimiser(model.parameters(), "sgd", 0.1, 0.0, 0.0), 4)
    torch.testing.assert_close(model.w.data, torch.tensor([2.0, -1.0]) * 0.9**4)
    # The loss of the last step is that before it.
    assert told.loss == pytest.approx(2.5 * 0.9**6)
    assert told.steps == 4


def test_the_proximal_term_pulls_towards_the_start() -> None:
    """w' = w − η (w + μ (w − w0)), the term is not part of the loss that is told."""
    model, w0, mu = Point(), torch.tensor([2.0, -1.0], dtype=torch.float64), 0.5
    told = optimise(
        model, lambda: quadratic(model), optimiser(model.parameters(), "sgd", 0.1, 0.0, 0.0), 3, mu
    )
    w = w0.clone()
    for _ in range(3):
        last = w
        w = w - 0.1 * (w + mu * (w - w0))
    torch.testing.assert_close(model.w.data.double(), w, rtol=1e-6, atol=1e-6)
    assert told.loss == pytest.approx(float((last**2).sum() / 2))


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_optimisers_are_torchs_unfused_ones(kind: str) -> None:
    ours, theirs = Point(), Point()
    plain = (
        torch.optim.Adam(theirs.parameters(), lr=0.1, weight_decay=0.01, fused=False, foreach=False)
        if kind == "adam"
        else torch.optim.SGD(
            theirs.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, fused=False, foreach=False
        )
    )
    optimise(ours, lambda: quadratic(ours), optimiser(ours.parameters(), kind, 0.1, 0.9, 0.01), 5)
    for _ in range(5):
        plain.zero_grad()
        quadratic(theirs).backward()
        plain.step()
    torch.testing.assert_close(ours.w, theirs.w)


def test_frozen_and_unused_parameters_stay() -> None:
    model = Point()
    model.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    model.unused = nn.Parameter(torch.ones(2))
    optimise(model, lambda: quadratic(model), optimiser(model.parameters(), "adam", 0.1, 0.9, 0.0), 2, 0.1)
    assert model.frozen.tolist() == [1, 1]
    assert model.unused.tolist() == [1, 1]


def test_the_cosine_schedule_is_that_of_pytorch() -> None:
    """The oracle anneals from 1 to 0.1 in 9 steps."""
    oracle = torch.optim.SGD(Point().parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(oracle, T_max=9, eta_min=0.1)
    for number in range(1, 11):
        assert scheduled_rate(1.0, "cosine", 0.1, number, 10) == pytest.approx(schedule.get_last_lr()[0])
        assert scheduled_rate(0.3, "constant", 0.1, number, 10) == 0.3
        oracle.step()
        schedule.step()
    assert scheduled_rate(0.3, "cosine", 0.1, 1, 1) == 0.3


def walk(rates: Sequence[float], momentum: float, prox_mu: float) -> float:
    """How far PyTorch's SGD goes on the loss w, in sizes of its first step."""
    w = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    stepper = torch.optim.SGD([w], lr=rates[0], momentum=momentum)
    for rate in rates:
        stepper.param_groups[0]["lr"] = rate
        stepper.zero_grad()
        (w.sum() + prox_mu / 2 * (w**2).sum()).backward()
        stepper.step()
    return -float(w.detach()) / rates[0]


RATES = st.lists(st.floats(1e-4, 0.5), min_size=1, max_size=12)


@given(RATES, st.floats(0, 0.99), st.floats(0, 2))
def test_effective_steps_are_the_walk_of_sgd_under_unit_gradients(
    rates: list[float], momentum: float, prox_mu: float
) -> None:
    assert effective_steps(rates, momentum, prox_mu) == pytest.approx(
        walk(rates, momentum, prox_mu), rel=1e-9, abs=1e-9
    )


@given(st.integers(1, 200), st.floats(1e-4, 1))
def test_effective_steps_of_plain_descent_are_its_steps(steps: int, rate: float) -> None:
    assert effective_steps([rate] * steps) == steps


@given(st.integers(1, 200), st.floats(1e-4, 1), st.floats(0.01, 0.99))
def test_effective_steps_with_momentum_are_the_closed_form(steps: int, rate: float, rho: float) -> None:
    closed = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    assert effective_steps([rate] * steps, rho) == pytest.approx(closed, rel=1e-9)


@given(st.integers(1, 200), st.floats(1e-3, 0.5), st.floats(0.01, 1.9))
def test_effective_steps_with_the_proximal_term_are_the_closed_form(
    steps: int, rate: float, mu: float
) -> None:
    closed = (1 - (1 - rate * mu) ** steps) / (rate * mu)
    assert effective_steps([rate] * steps, 0.0, mu) == pytest.approx(closed, rel=1e-9)


def test_no_step_and_steps_of_no_size_amount_to_nothing() -> None:
    assert effective_steps([]) == 0
    assert effective_steps([0.0, 0.0], 0.9, 0.1) == 0


@pytest.mark.parametrize(
    ("kind", "momentum", "mu", "expected"),
    [
        ("sgd", 0.0, 0.0, 4.0),
        ("sgd", 0.5, 0.0, walk([0.1] * 4, 0.5, 0.0)),
        ("sgd", 0.5, 2.0, walk([0.1] * 4, 0.5, 2.0)),
        # Adam's number of steps is a heuristic.
        ("adam", 0.5, 2.0, 4.0),
        # 0.1 · 30 overshoots: the closed form is −5.
        ("sgd", 0.0, 30.0, 0.0),
    ],
)
def test_training_tells_its_effective_steps(kind: str, momentum: float, mu: float, expected: float) -> None:
    model = Point()
    stepper = optimiser(model.parameters(), kind, 0.1, momentum, 0.01)
    told = optimise(model, lambda: quadratic(model), stepper, 4, mu)
    assert told.normaliser == pytest.approx(expected)
    assert told.steps == 4


def test_a_linear_loss_moves_by_the_effective_steps() -> None:
    model, gradient = Point(), torch.tensor([0.3, -2.0])
    before = model.w.detach().clone()
    stepper = optimiser(model.parameters(), "sgd", 0.05, 0.9, 0.0)
    told = optimise(model, lambda: (model.w * gradient).sum(), stepper, 7, 0.4)
    torch.testing.assert_close(model.w.detach() - before, -0.05 * told.normaliser * gradient)


@pytest.mark.parametrize(("until", "steps"), [(None, 9), (99.0, 1), (100.0, 1), (102.5, 3), (1e9, 9)])
def test_no_step_begins_after_the_deadline_but_the_first(
    monkeypatch: pytest.MonkeyPatch, until: float | None, steps: int
) -> None:
    """The clock stands at 100 and every evaluation of the loss takes one second."""
    model, now = Point(), [100.0]
    monkeypatch.setattr("fedtag.client.train.optimisation.time.monotonic", lambda: now[0])

    def loss() -> torch.Tensor:
        now[0] += 1
        return quadratic(model)

    told = optimise(model, loss, optimiser(model.parameters(), "sgd", 0.1, 0.0, 0.0), 9, until=until)
    assert told.steps == steps
    assert told.normaliser == steps
    torch.testing.assert_close(model.w.data, torch.tensor([2.0, -1.0]) * 0.9**steps)


@pytest.mark.parametrize(("accuracy", "epochs"), [(None, 3), (0.0, 8), (0.59, 8), (0.6, 3), (1.0, 3)])
def test_only_a_client_under_the_threshold_works_longer(accuracy: float | None, epochs: int) -> None:
    assert local_epochs(3, 5, 0.6, accuracy) == epochs
    assert local_epochs(3, 5, 0.0, accuracy) == 3


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("broken", [1, 3])
def test_a_loss_that_is_no_number_is_named_with_the_remedy(kind: str, broken: int) -> None:
    """Whichever step it comes with, though it is looked at after the last one."""
    model, seen = Point(), [0]

    def loss() -> torch.Tensor:
        seen[0] += 1
        return quadratic(model) * (torch.nan if seen[0] == broken else 1.0)

    stepper = optimiser(model.parameters(), kind, 0.1, 0.0, 0.0)
    with pytest.raises(
        DivergenceError, match=r"training diverged \(the loss is nan\): lower train.learning-rate"
    ):
        optimise(model, loss, stepper, 4)


def test_an_infinite_proximal_term_is_divergence_too() -> None:
    model = Point()
    stepper = optimiser(model.parameters(), "sgd", 1e30, 0.0, 0.0)
    with pytest.raises(DivergenceError, match=r"train\.prox-mu"):
        optimise(model, lambda: model.w.sum(), stepper, 3, prox_mu=1.0)
