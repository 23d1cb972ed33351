"""A model's own code computes for all clients at once what it computes for each."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedtag.client.train.stacked.graphs import OrderedSums, one_graph, side_by_side
from fedtag.client.train.stacked.parameters import Stacked, check_stacks, logits_of_all, logits_of_one
from fedtag.common.errors import ConfigError
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.spec import BACKBONES
from tests.unit.client.train.stacked.drawn import CLASSES, INPUTS, SIZES, configured, graph_of

CLIENTS, ROWS = len(SIZES), 20


def models(backbone: str) -> list[NodeClassifier]:
    config = configured(model__backbone=backbone, model__layers=3)
    return [initial_backbone(config, INPUTS, CLASSES, seed=seed) for seed in range(CLIENTS)]


@pytest.mark.parametrize("backbone", [name for name, spec in BACKBONES.usable().items() if spec.stacks])
def test_logits_and_gradients_are_those_of_each_client(backbone: str) -> None:
    own = models(backbone)
    graphs = [graph_of(*size, seed) for seed, size in enumerate(SIZES.values())]
    stacked = {
        name: torch.stack([dict(one.named_parameters())[name].detach() for one in own]).requires_grad_()
        for name, _ in own[0].named_parameters()
    }
    x, adjacency = (
        side_by_side([one.x for one in graphs], ROWS),
        one_graph([g.adjacency() for g in graphs], ROWS),
    )
    with OrderedSums([adjacency]):
        found = logits_of_all(own[0], stacked, x, adjacency, ROWS).view(CLIENTS, ROWS, CLASSES)
    total = torch.zeros(())
    for place, (model, graph) in enumerate(zip(own, graphs, strict=True)):
        logits = model(graph.x, graph.adjacency())
        torch.testing.assert_close(found[place, : graph.num_nodes], logits)
        logits.square().sum().backward()
        total = total + found[place, : graph.num_nodes].square().sum()
    gradients = torch.autograd.grad(total, list(stacked.values()))
    for name, gradient in zip(stacked, gradients, strict=True):
        wanted = torch.stack([dict(model.named_parameters())[name].grad for model in own])
        torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backbone", [name for name, spec in BACKBONES.usable().items() if not spec.stacks])
def test_what_reads_links_with_its_parameters_is_refused(backbone: str) -> None:
    own = models(backbone)
    graphs = [graph_of(*size, seed) for seed, size in enumerate(SIZES.values())]
    stacked = {
        name: value.detach().expand(CLIENTS, *value.shape) for name, value in own[0].named_parameters()
    }
    x, adjacency = (
        side_by_side([one.x for one in graphs], ROWS),
        one_graph([g.adjacency() for g in graphs], ROWS),
    )
    with pytest.raises(ConfigError, match=r"uses a parameter in 'linear' .* set engine = separate"):
        logits_of_all(own[0], stacked, x, adjacency, ROWS)


def test_the_same_model_for_all_is_that_model() -> None:
    (model, *_), graph = models("gcn"), graph_of(9, 20, 0)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    adjacency = graph.adjacency()
    assert torch.equal(logits_of_one(model, parameters, graph.x, adjacency), model(graph.x, adjacency))


def test_a_parameter_looks_like_that_of_one_client() -> None:
    weight = Stacked.of(torch.arange(24.0).view(4, 2, 3), rows=5)
    assert (weight.shape, weight.dim(), weight.size(0), len(weight), weight.numel()) == ((2, 3), 2, 2, 2, 6)
    assert weight[-1].shape == (3,)
    assert [row.as_subclass(torch.Tensor).shape for row in weight] == [(4, 3), (4, 3)]
    rows = torch.ones(20, 3)
    assert (rows * weight[0]).shape == (20, 3)
    assert torch.equal((rows + weight[0])[5:10], 1 + torch.tensor([6.0, 7.0, 8.0]).expand(5, 3))
    with pytest.raises(ConfigError, match="with something else than the rows of nodes"):
        torch.ones(7, 3) * weight[0]
    with pytest.raises(ConfigError, match="with something else than the rows of nodes"):
        weight @ rows.T


def test_a_state_that_training_does_not_move_is_refused() -> None:
    class Counting(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self.register_buffer("count", torch.zeros(()))

    check_stacks(nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=r"\(count\)"):
        check_stacks(Counting())
    fixed = nn.Linear(2, 2)
    fixed.bias.requires_grad_(False)
    with pytest.raises(ConfigError, match=r"\(bias\)"):
        check_stacks(fixed)
