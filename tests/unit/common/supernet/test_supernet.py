"""The supernet: mixtures by hand, exact zero and identity, permutations, derivatives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.func import functional_call

from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency
from fedtag.common.methods.da_dfgas.course import first_supernet
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.models.supernet.activations import FUNCTIONS
from fedtag.common.models.supernet.aggregations import aggregate
from fedtag.common.models.supernet.cell import Cell, edge_name
from fedtag.common.models.supernet.logits import CellLogits, cell_logits, is_architecture, layer_weights
from fedtag.common.models.supernet.space import ACTIVATIONS, AGGREGATIONS, FILTERS, LAYERS, ZERO
from fedtag.common.models.supernet.supernet import Supernet

Make = Callable[..., Adjacency]
SURE = 1e4
"""A logit beside which the softmax of 0 is exactly 0."""


def random_logits(seed: int = 0) -> CellLogits:
    torch.manual_seed(seed)
    logits = CellLogits().double()
    for value in logits.parameters():
        torch.nn.init.normal_(value)
    return logits


def only(layer: str, kind: str, target_source: int | None = None) -> dict[str, torch.Tensor]:
    """Logits of a layer whose every edge has one operation, and whose nodes have one or all edges."""
    name, sources, operations = next(one for one in LAYERS if one[0] == layer)
    alpha, beta = torch.zeros(3, sources, len(operations)), torch.zeros(3, sources)
    alpha[:, :, operations.index(kind)] = SURE
    if target_source is not None:
        beta[:, target_source] = SURE
    return {f"{name}_operations": alpha.double(), f"{name}_edges": beta.double()}


def inputs(nodes: int = 7, dim: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(nodes, dim).double(), torch.randn(nodes, dim).double()


def test_a_node_is_the_mixture_of_all_operations_on_all_edges(make_adjacency: Make) -> None:
    """Sums over edges and operations one by one."""
    torch.manual_seed(0)
    cell, adjacency, (h, x) = Cell(4).double(), make_adjacency(), inputs()
    weights = random_logits().weights()
    context = torch.cat([h, x], dim=1)

    def filtered(kind: str, target: int, source: int) -> torch.Tensor:
        entering = (h, x)[source]
        if kind == ZERO:
            return torch.zeros_like(h)
        if kind == "identity":
            return entering
        return cell.gates[edge_name(target, source)][kind](entering, context)

    def node(layer: str, target: int, sources: int, value: Callable[..., torch.Tensor]) -> torch.Tensor:
        kinds = {name: operations for name, _, operations in LAYERS}[layer]
        own = weights[layer]
        return sum(
            own.edges[target, source] * own.operations[target, source, number] * value(kind, target, source)
            for source in range(sources)
            for number, kind in enumerate(kinds)
        )

    first = [node("filter", target, 2, filtered) for target in range(3)]
    second = [
        node(
            "aggregate",
            target,
            3,
            lambda kind, _, source: (
                torch.zeros_like(h) if kind == ZERO else aggregate(kind, first[source], adjacency)
            ),
        )
        for target in range(3)
    ]
    third = [
        node("activate", target, 3, lambda kind, _, source: FUNCTIONS[kind](second[source]))
        for target in range(3)
    ]
    torch.testing.assert_close(cell.terminal(h, x, adjacency, weights), torch.stack(third))
    whole = torch.cat([cell.projection[str(k)].weight for k in range(3)], dim=1)
    mean = torch.stack(third).mean(0)
    torch.testing.assert_close(
        cell(h, x, adjacency, weights), 2 * (0.9 * mean + 0.1 * torch.cat(third, dim=1) @ whole.T / 3)
    )


def test_identities_carry_the_input_through_exactly(make_adjacency: Make) -> None:
    cell, (h, x) = Cell(4).double(), inputs()
    for source, entering in enumerate((h, x)):
        logits = (
            only("filter", "identity", source)
            | only("aggregate", "identity", 1)
            | only("activate", "identity", 2)
        )
        terminal = cell.terminal(h, x, make_adjacency(), layer_weights(logits))
        assert all(value.equal(entering) for value in terminal)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("layer", ["filter", "aggregate"])
def test_zero_is_exactly_zero_under_every_activation(
    make_adjacency: Make, layer: str, activation: str
) -> None:
    cell, (h, x) = Cell(4).double(), inputs()
    logits = only("filter", "identity") | only("aggregate", "sum") | only("activate", activation)
    logits |= only(layer, ZERO)
    terminal = cell.terminal(h, x, make_adjacency(), layer_weights(logits))
    assert terminal.equal(torch.zeros_like(terminal))


def test_one_dead_node_leaves_the_others_alone(make_adjacency: Make) -> None:
    """Node 0 of layer 2 is closed; it adds exactly 0 to an equal mixture under the sigmoid."""
    cell, (h, x) = Cell(4).double(), inputs()
    logits = only("filter", "identity", 0) | only("aggregate", "identity") | only("activate", "sigmoid")
    logits["aggregate_operations"][0] = 0
    logits["aggregate_operations"][0, :, AGGREGATIONS.index(ZERO)] = SURE
    terminal = cell.terminal(h, x, make_adjacency(), layer_weights(logits))
    torch.testing.assert_close(terminal[0], 2 / 3 * (4 * torch.sigmoid(h) - 2))


def test_reordering_nodes_reorders_the_output(make_adjacency: Make) -> None:
    torch.manual_seed(0)
    model = Supernet(5, 4, 3, 2, 0.5).double()
    adjacency, x = make_adjacency(), torch.randn(7, 5).double()
    order = torch.randperm(7)
    place = order.argsort()
    source, target = place[adjacency.edge_index]
    sequence = (target * 7 + source).argsort()
    moved = Adjacency(torch.stack([source, target])[:, sequence], adjacency.weight[sequence], 7)
    torch.testing.assert_close(model(x[order], moved), model(x, adjacency)[order])


def test_gradients_of_weights_and_architecture_are_those_of_differences(make_adjacency: Make) -> None:
    torch.manual_seed(0)
    model, adjacency = Supernet(3, 2, 2, 1, 0.0).double(), make_adjacency(5)
    x = torch.randn(5, 3).double()
    for value in model.parameters():
        torch.nn.init.normal_(value)
    names = [
        name for name, _ in model.named_parameters() if is_architecture(name) or name.startswith("cells")
    ]
    values = tuple(dict(model.named_parameters())[name] for name in names)

    def outputs(*given: torch.Tensor) -> torch.Tensor:
        return functional_call(model, dict(zip(names, given, strict=True)), (x, adjacency))

    assert torch.autograd.gradcheck(outputs, values, fast_mode=True)


def test_dropout_needs_a_generator(make_adjacency: Make) -> None:
    torch.manual_seed(0)
    model, adjacency, x = (
        Supernet(5, 4, 3, 1, 0.5).double(),
        make_adjacency(),
        torch.randn(7, 5).double(),
    )
    assert model(x, adjacency).equal(model(x, adjacency))
    once, again = (model(x, adjacency, torch.Generator().manual_seed(3)) for _ in range(2))
    assert once.equal(again)
    assert not once.equal(model(x, adjacency))


def test_the_architecture_is_named_apart_from_the_weights() -> None:
    config = RunConfig(method="da_dfgas", da_dfgas={"cells": 2}, model={"hidden": 4})
    model = parameters_of(first_supernet(config, 5, 3))
    assert fingerprint(model) == fingerprint(parameters_of(first_supernet(config, 5, 3)))
    named = {name for name in model if is_architecture(name)}
    assert named == {
        f"architecture.{cell}.{layer}_{what}"
        for cell in (0, 1)
        for layer in ("filter", "aggregate", "activate")
        for what in ("operations", "edges")
    }
    assert [len(cell) for cell in cell_logits(model)] == [6, 6]
    assert model["architecture.0.filter_operations"].shape == (3, 2, len(FILTERS))
