"""The written-out gradients against torch.autograd on a plain implementation of the models, in float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedtag.common.errors import DivergenceError
from fedtag.common.synthetic.adjacency import normalised_links
from fedtag.common.synthetic.fitting import fitted
from fedtag.common.synthetic.gradients import (
    Batch,
    MatchingModel,
    Weights,
    class_gradients,
    initial_weights,
    logits,
    mean_gradients,
)
from fedtag.common.synthetic.matching import Distance, gradient_distance

CORE, DIM, HIDDEN, CLASSES = 9, 4, 5, 3
MODELS: list[MatchingModel] = ["gcn", "sgc"]


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def weights_of(model: MatchingModel, seed: int = 0) -> Weights:
    generator = torch.Generator().manual_seed(seed)
    weights = initial_weights(model, DIM, HIDDEN, CLASSES, generator)
    return tuple(weight + 0.1 * torch.randn(weight.shape, generator=generator) for weight in weights)


def plain(weights: Weights, x: Tensor, adjacency: Tensor) -> Tensor:
    if len(weights) == 2:
        return adjacency @ adjacency @ x @ weights[0] + weights[1]
    first, first_bias, second, second_bias = weights
    hidden = functional.relu(adjacency @ x @ first + first_bias)
    return adjacency @ hidden @ second + second_bias


def condensed(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    links = torch.rand(CORE, CORE, generator=generator)
    x = torch.randn(CORE, DIM, generator=generator)
    return x, (links + links.T) / 2, torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, 1])  # class 2 has no node


@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_classes_are_those_of_autograd(model: MatchingModel) -> None:
    x, links, y = condensed()
    adjacency = normalised_links(links)
    weights = tuple(weight.requires_grad_() for weight in weights_of(model))
    batch = Batch(adjacency @ x, adjacency, y)
    torch.testing.assert_close(logits(weights, batch), plain(weights, x, adjacency))
    found = class_gradients(weights, batch)
    for label in range(CLASSES):
        chosen = y == label
        if not chosen.any():
            assert all(not gradient[label].any() for gradient in found)
            continue
        loss = functional.cross_entropy(plain(weights, x, adjacency)[chosen], y[chosen])
        for gradient, wanted in zip(found, torch.autograd.grad(loss, weights), strict=True):
            torch.testing.assert_close(gradient[label], wanted)
    loss = functional.cross_entropy(plain(weights, x, adjacency), y)
    for gradient, wanted in zip(
        mean_gradients(weights, batch), torch.autograd.grad(loss, weights), strict=True
    ):
        torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("model", MODELS)
def test_a_sparse_batch_has_the_gradients_of_the_dense_one(model: MatchingModel) -> None:
    x, links, y = condensed()
    adjacency = normalised_links(links * (links > 0.5))
    weights = weights_of(model)
    dense = class_gradients(weights, Batch(adjacency @ x, adjacency, y))
    sparse = class_gradients(weights, Batch(adjacency @ x, adjacency.to_sparse(), y))
    for one, other in zip(dense, sparse, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("distance", ["cosine", "squared"])
@pytest.mark.parametrize("model", MODELS)
def test_features_and_links_get_the_derivatives_of_second_order_autograd(
    model: MatchingModel, distance: Distance
) -> None:
    x, links, y = condensed()
    shares = torch.tensor([0.5, 0.3, 0.0])
    weights = tuple(weight.requires_grad_() for weight in weights_of(model))
    real_x, real_links, _ = condensed(1)
    real_adjacency = normalised_links(real_links)
    real = class_gradients(weights, Batch(real_adjacency @ real_x, real_adjacency, y))
    real = tuple(gradient.detach() for gradient in real)
    x.requires_grad_()
    links.requires_grad_()
    adjacency = normalised_links(links)
    found = class_gradients(weights, Batch(adjacency @ x, adjacency, y))
    value = gradient_distance(real, found, distance, shares)
    mine = torch.autograd.grad(value, (x, links))

    adjacency = normalised_links(links)
    by_hand = torch.zeros(())
    for label in (0, 1):
        chosen = y == label
        loss = functional.cross_entropy(plain(weights, x, adjacency)[chosen], y[chosen])
        gradients = torch.autograd.grad(loss, weights, create_graph=True)
        for goal, gradient in zip(real, gradients, strict=True):
            if distance == "squared":
                apart = ((goal[label] - gradient) ** 2).sum()
            elif gradient.dim() == 2:
                apart = (1 - functional.cosine_similarity(goal[label], gradient, dim=0)).sum()
            else:
                continue
            by_hand = by_hand + shares[label] * apart
    torch.testing.assert_close(value, by_hand, rtol=1e-6, atol=1e-9)
    for one, other in zip(mine, torch.autograd.grad(by_hand, (x, links)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_do_not_depend_on_the_order_of_nodes(model: MatchingModel) -> None:
    x, links, y = condensed()
    order = torch.randperm(CORE, generator=torch.Generator().manual_seed(3))
    weights = weights_of(model)
    one, other = normalised_links(links), normalised_links(links[order][:, order])
    for before, after in zip(
        class_gradients(weights, Batch(one @ x, one, y)),
        class_gradients(weights, Batch(other @ x[order], other, y[order])),
        strict=True,
    ):
        torch.testing.assert_close(before, after)


@pytest.mark.parametrize(("distance", "most"), [("cosine", 6.0), ("squared", 24.0)])
def test_equal_gradients_have_no_distance_and_opposite_ones_the_largest(
    distance: Distance, most: float
) -> None:
    gradients = (torch.eye(3).expand(2, 3, 3), torch.ones(2, 3))
    shares = torch.tensor([0.25, 0.75])
    opposite = tuple(-gradient for gradient in gradients)
    assert float(gradient_distance(gradients, gradients, distance, shares)) == pytest.approx(0, abs=1e-9)
    assert float(gradient_distance(gradients, opposite, distance, shares)) == pytest.approx(most)


def test_fitting_takes_the_steps_of_adam_on_the_mean_loss() -> None:
    x, links, y = condensed()
    adjacency = normalised_links(links)
    start = weights_of("gcn")
    found = fitted(start, Batch(adjacency @ x, adjacency, y), 20, 0.05, 0.01)
    moving = [weight.clone().requires_grad_() for weight in start]
    adam = torch.optim.Adam(moving, lr=0.05, weight_decay=0.01)
    for _ in range(20):
        adam.zero_grad()
        functional.cross_entropy(plain(tuple(moving), x, adjacency), y).backward()
        adam.step()
    for one, other in zip(found, moving, strict=True):
        torch.testing.assert_close(one, other.detach())


def test_divergence_is_said() -> None:
    x, links, y = condensed()
    adjacency = normalised_links(links)
    with pytest.raises(DivergenceError, match=r"lower condenser\.model-rate"):
        fitted(weights_of("gcn"), Batch(adjacency @ x * torch.nan, adjacency, y), 1, 0.1)
