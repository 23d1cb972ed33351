"""Halves of the validation nodes, and the step of the architecture between steps of the weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fedtag.client.methods.da_dfgas.architecture_search import (
    BETAS,
    SHARPNESS,
    WEIGHT_DECAY,
    ArchitectureSteps,
    search_loss,
)
from fedtag.client.methods.da_dfgas.halves import halves
from fedtag.client.train.optimisation import optimise, optimiser
from fedtag.common.errors import DivergenceError
from fedtag.common.graph import Graph


def graph(validation: int, nodes: int = 12) -> Graph:
    mask = torch.zeros(nodes, dtype=torch.bool)
    mask[1 : validation + 1] = True
    none = torch.zeros(nodes, dtype=torch.bool)
    edges, y = torch.zeros(2, 0, dtype=torch.long), torch.zeros(nodes, dtype=torch.long)
    return Graph(torch.zeros(nodes, 1), edges, torch.zeros(0), y, none, mask, none, 2)


@pytest.mark.parametrize(
    ("validation", "searched", "judged"), [(0, 0, 0), (1, 0, 1), (3, 0, 3), (4, 2, 2), (9, 4, 5)]
)
def test_halves_are_disjoint_and_cover_the_validation_nodes(
    validation: int, searched: int, judged: int
) -> None:
    whole = graph(validation)
    split = halves(whole, torch.Generator().manual_seed(1))
    assert not bool((split.searched & split.judged).any())
    assert (split.searched | split.judged).equal(whole.val_mask)
    assert (int(split.searched.sum()), int(split.judged.sum())) == (searched, judged)


def test_halves_are_drawn_by_the_generator() -> None:
    masks = [halves(graph(10), torch.Generator().manual_seed(seed)).searched for seed in (1, 1, 2)]
    assert masks[0].equal(masks[1])
    assert not masks[0].equal(masks[2])


def test_the_loss_of_the_search_sees_directions_and_not_sizes() -> None:
    """By hand on two nodes; ten times the logits are the same, and no gradient leads along them."""
    logits = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64, requires_grad=True)
    labels, searched = torch.tensor([0, 0]), torch.tensor([True, False])
    root = (10 / 4) ** 0.5
    loss = search_loss(logits, labels, searched)
    assert loss.item() == pytest.approx(math.log1p(math.exp(-3 * SHARPNESS / root)))
    assert search_loss(10 * logits, labels, searched).item() == pytest.approx(loss.item())
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool(gradient.any())
    assert (gradient * logits).sum().item() == pytest.approx(0, abs=1e-12)
    assert bool(torch.isfinite(search_loss(torch.zeros(2, 2), labels, searched)))


class Product(nn.Module):
    """Two numbers, one of them the architecture: training wants w a = 1, validation w a = 3."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.a = nn.Parameter(torch.tensor(0.8, dtype=torch.float64))

    def miss(self, wanted: float) -> torch.Tensor:
        return (self.w * self.a - wanted) ** 2


def test_the_search_is_a_plain_alternation() -> None:
    """Adam on a with w as it stands, then SGD with momentum and proximal term on w, by hand."""
    model = Product()
    model.a.requires_grad_(False)
    stepper = optimiser([model.w], "sgd", 0.1, 0.5, 0.0)
    before = ArchitectureSteps([model.w], [model.a], lambda: model.miss(3.0), 0.05)
    told = optimise(model, lambda: model.miss(1.0), stepper, 4, prox_mu=0.2, before_step=before)
    w, a, velocity, first, second = 0.5, 0.8, 0.0, 0.0, 0.0
    for step in range(1, 5):
        slope = 2 * (w * a - 3.0) * w + WEIGHT_DECAY * a
        first = BETAS[0] * first + (1 - BETAS[0]) * slope
        second = BETAS[1] * second + (1 - BETAS[1]) * slope**2
        a -= 0.05 * (first / (1 - BETAS[0] ** step)) / ((second / (1 - BETAS[1] ** step)) ** 0.5 + 1e-8)
        velocity = 0.5 * velocity + 2 * (w * a - 1.0) * a + 0.2 * (w - 0.5)
        w -= 0.1 * velocity
    assert model.w.item() == pytest.approx(w, rel=1e-12)
    assert model.a.item() == pytest.approx(a, rel=1e-12)
    assert told.steps == 4


def test_gradients_are_on_for_the_weights_between_steps() -> None:
    model = Product()
    steps = ArchitectureSteps([model.w], [model.a], lambda: model.miss(3.0), 0.05)
    steps()
    assert (model.w.requires_grad, model.a.requires_grad) == (True, False)


def test_a_search_that_diverges_says_so_and_leaves_the_model_usable() -> None:
    model = Product()
    steps = ArchitectureSteps([model.w], [model.a], lambda: model.miss(float("nan")), 0.05)
    with pytest.raises(DivergenceError, match=r"da_dfgas.architecture-rate"):
        steps()
    assert model.w.requires_grad
