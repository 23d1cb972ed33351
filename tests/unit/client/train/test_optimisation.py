from __future__ import annotations

import pytest
import torch
from torch import nn

from client.train.optimisation import optimise, optimiser, scheduled_rate


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
