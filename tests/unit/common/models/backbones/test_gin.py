from __future__ import annotations

import pytest
import torch
from torch import nn

from fedtag.client.train.optimisation import optimise, optimiser
from fedtag.common.models.backbones.gin import GIN
from fedtag.common.models.backbones.sage import SAGE
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.models.gradients import LARGEST
from tests.unit.common.models.small import INPUTS, adjacency, backbone, features, links, path, star


def norm(model: nn.Module) -> float:
    return float(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm())


def test_it_is_the_closed_form() -> None:
    x, matrix, model = features(), adjacency(), backbone("gin")
    assert isinstance(model, Backbone)

    def layer(module: nn.Module, h: torch.Tensor) -> torch.Tensor:
        first, _, second = module.conv.nn
        with torch.no_grad():
            module.conv.eps.fill_(0.25)
        inner = (1.25 * h + links(matrix) @ h) @ first.weight.T + first.bias
        return inner.relu() @ second.weight.T + second.bias

    expected = layer(model.layers[1], layer(model.layers[0], x).relu())
    torch.testing.assert_close(model(x, matrix), expected)


def test_on_a_path_it_adds_the_neighbour() -> None:
    layer = GIN(1, 1, 1)
    layer.conv.nn = nn.Identity()
    torch.testing.assert_close(layer(torch.tensor([[1.0], [3.0]]), path()), torch.tensor([[4.0], [4.0]]))


def test_it_counts_neighbours_which_a_mean_does_not() -> None:
    torch.manual_seed(0)
    gin, sage = GIN(8, 2, 3), SAGE(2, 3)
    three, four = (star(leaves) for leaves in (3, 4))
    alike = [layer(torch.ones(4, 2), three)[0] - layer(torch.ones(5, 2), four)[0] for layer in (gin, sage)]
    assert float(alike[0].detach().abs().max()) > 1e-2
    assert float(alike[1].detach().abs().max()) < 1e-6


@pytest.mark.parametrize("family", ["gin", "gatedgcn"])
@pytest.mark.parametrize(("kind", "rate"), [("adam", 0.01), ("sgd", 0.1)])
def test_a_star_of_ten_thousand_leaves_keeps_weights_finite(family: str, kind: str, rate: float) -> None:
    leaves = 10_000
    x = torch.randn(leaves + 1, INPUTS, generator=torch.Generator().manual_seed(0)) + 1
    model, matrix = backbone(family, rate=0.0), star(leaves)
    # The centre is of the class of which the model thinks least.
    least = model(x, matrix)[:1].argmin(1)

    def loss() -> torch.Tensor:
        return nn.functional.cross_entropy(model(x, matrix)[:1], least)

    loss().backward()
    assert norm(model) > 100 * LARGEST
    norms: list[float] = []
    stepper = optimiser(model.parameters(), kind, rate, 0.0, 5e-4)
    stepper.register_step_pre_hook(lambda *_: norms.append(norm(model)))
    optimise(model, loss, stepper, 20)
    assert max(norms) <= LARGEST * (1 + 1e-5)
    assert norms[0] == pytest.approx(LARGEST, rel=1e-4)
    assert all(bool(p.isfinite().all()) for p in model.parameters())


def test_other_models_keep_their_gradients() -> None:
    model, matrix = backbone("gcn"), adjacency()
    norms: list[float] = []
    stepper = optimiser(model.parameters(), "sgd", 0.1, 0.0, 0.0)
    stepper.register_step_pre_hook(lambda *_: norms.append(norm(model)))
    optimise(model, lambda: 1000 * model(features(), matrix).square().sum(), stepper, 1)
    assert norms[0] > 100 * LARGEST
