"""Discretisation over random logits, against the rules written down once more by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.common.errors import WireError
from fedtag.common.graph import Adjacency
from fedtag.common.models.supernet.architecture import FALLBACK, Architecture, CellArchitecture, Edge
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.drawing import drawing, table
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import always_used, discrete_network, parameter_count, used_names
from fedtag.common.models.supernet.space import AGGREGATIONS, INPUTS, LAYERS, ZERO
from fedtag.common.models.supernet.supernet import Supernet

Make = Callable[..., Adjacency]
SURE = 1e4
SEEDS = st.integers(0, 10**6)


def searched(seed: int, spread: float = 2.0, zeros: float = 0.0, cells: int = 1) -> Supernet:
    """A supernet with random weights and logits; `zeros` is added to the logits of the zero operation."""
    torch.manual_seed(seed)
    model = Supernet(5, 4, 3, cells, 0.5).double()
    for name, value in model.named_parameters():
        torch.nn.init.normal_(value, std=spread if is_architecture(name) else 0.5)
    for cell in range(cells):
        for layer, _, operations in LAYERS:
            if ZERO in operations:
                alpha = model.get_parameter(f"architecture.{cell}.{layer}_operations")
                alpha.data[:, :, operations.index(ZERO)] += zeros
    return model


def hardened(model: Supernet, gap: float) -> None:
    """One-hot α and one-hot or two-hot β by the rules of the paper, before anything is removed, in place."""
    for cell in model.architecture:
        for layer, sources, operations in LAYERS:
            alpha, beta = cell.get_parameter(f"{layer}_operations"), cell.get_parameter(f"{layer}_edges")
            for target in range(3):
                p = beta[target].softmax(0)
                ranked = p.argsort(descending=True)
                two = layer == "aggregate" and p[ranked[0]] - p[ranked[1]] < gap
                beta.data[target] = 0
                beta.data[target, ranked[: 2 if two else 1]] = SURE
                for source in range(sources):
                    q = alpha[target, source].softmax(0).clone()
                    chosen = int(q.argmax())
                    if ZERO in operations and chosen == operations.index(ZERO) and q.max() <= 0.5:
                        q[chosen] = -1
                        chosen = int(q.argmax())
                    if layer == "aggregate" and operations[chosen] == "identity" and q.max() <= 0.5:
                        q[chosen] = -1
                        q[operations.index(ZERO)] = -1
                        chosen = int(q.argmax())
                    alpha.data[target, source] = 0
                    alpha.data[target, source, chosen] = SURE


def fallback_logits(model: Supernet, number: int) -> None:
    """Identity from H into node 0, its mean into node 0, ReLU of that into node 0; the rest closed."""
    cell = model.architecture[number]
    for layer, kind in (("filter", "identity"), ("aggregate", "mean"), ("activate", "relu")):
        operations = {name: kinds for name, _, kinds in LAYERS}[layer]
        alpha, beta = cell.get_parameter(f"{layer}_operations"), cell.get_parameter(f"{layer}_edges")
        alpha.data.zero_()
        beta.data.zero_()
        beta.data[:, 0] = SURE
        alpha.data[:, :, operations.index(ZERO if layer == "aggregate" else kind)] = SURE
        alpha.data[0, :, :] = 0
        alpha.data[0, :, operations.index(kind)] = SURE
    # Of the terminal nodes only the first takes the living node.
    beta = cell.get_parameter("activate_edges")
    beta.data[1:] = torch.tensor([0.0, SURE, 0.0])


def paths_exist(cell: CellArchitecture) -> bool:
    living = set(range(INPUTS))
    for layer, _, _ in LAYERS:
        nodes = cell.layers[layer]
        if any(edge.source not in living for edges in nodes.values() for edge in edges):
            return False
        living = set(nodes)
    return bool(living)


@settings(max_examples=40)
@given(seed=SEEDS, spread=st.floats(0.01, 4), zeros=st.floats(-2, 6), gap=st.floats(0, 1))
def test_rules_hold_for_all_logits(seed: int, spread: float, zeros: float, gap: float) -> None:
    model = searched(seed, spread, zeros)
    (cell,) = discretised(model.state_dict(), gap).cells
    assert paths_exist(cell)
    assert all(
        edge.operation != ZERO for nodes in cell.layers.values() for es in nodes.values() for edge in es
    )
    for layer in ("filter", "activate"):
        assert all(len(edges) == 1 and edges[0].weight == 1 for edges in cell.layers[layer].values())
    for edges in cell.layers["aggregate"].values():
        assert len({edge.source for edge in edges}) == len(edges) <= 2
        assert sum(edge.weight for edge in edges) <= 1
    # Every node that is left is read by the next layer.
    for layer, reader in (("filter", "aggregate"), ("aggregate", "activate")):
        read = {edge.source for edges in cell.layers[reader].values() for edge in edges}
        assert read == set(cell.layers[layer])


@settings(max_examples=40)
@given(seed=SEEDS, zeros=st.floats(-2, 4), gap=st.sampled_from([0.0, 0.1, 0.5, 1.0]), cells=st.integers(1, 2))
def test_the_network_is_the_supernet_with_hard_logits(
    seed: int, zeros: float, gap: float, cells: int
) -> None:
    model = searched(seed, 2.0, zeros, cells)
    architecture = discretised(model.state_dict(), gap)
    network = discrete_network(architecture, model.state_dict(), 0.5)
    hardened(model, gap)
    for number, cell in enumerate(architecture.cells):
        if cell.fell_back:
            fallback_logits(model, number)
    x = torch.randn(7, 5).double()
    adjacency = Adjacency(torch.tensor([[0, 2, 1, 3, 2], [0, 0, 1, 2, 3]]), torch.rand(5).double(), 7)
    torch.testing.assert_close(network(x, adjacency), model(x, adjacency))


def test_both_have_the_same_dropout(make_adjacency: Make) -> None:
    model = searched(3)
    network = discrete_network(discretised(model.state_dict(), 0.1), model.state_dict(), 0.5)
    hardened(model, 0.1)
    x = torch.randn(7, 5).double()
    outputs = [one(x, make_adjacency(), torch.Generator().manual_seed(1)) for one in (network, model)]
    torch.testing.assert_close(*outputs)


def test_a_cell_without_a_path_falls_back_and_says_so() -> None:
    model = searched(0, zeros=50.0)
    architecture = discretised(model.state_dict(), 0.1)
    assert architecture.cells == (FALLBACK,)
    assert "fallback" in drawing(architecture)
    assert {name for name in used_names(architecture) if not always_used(name)} == {
        "cells.0.projection.0.weight"
    }
    assert used_names(architecture) == {
        "first.weight",
        "first.bias",
        "classifier.weight",
        "classifier.bias",
        "cells.0.projection.0.weight",
        "cells.0.gain",
    }


def test_zero_is_taken_only_above_a_half() -> None:
    model = searched(0, spread=0.0)
    alpha = model.get_parameter("architecture.0.filter_operations")
    # Four operations: e^l / (e^l + 3) is a half at l = ln 3.
    for more, closed in ((-1e-3, False), (1e-3, True)):
        alpha.data[:, :, 0] = torch.tensor(3.0).log() + more
        (cell,) = discretised(model.state_dict(), 0.1).cells
        assert cell.fell_back == closed


def test_two_edges_are_kept_under_the_gap_only() -> None:
    model = searched(0, spread=0.0)
    beta = model.get_parameter("architecture.0.aggregate_edges")
    beta.data[:] = torch.tensor([0.5, 0.4, 0.1]).log()
    for gap, kept in ((0.09, 1), (0.11, 2)):
        (cell,) = discretised(model.state_dict(), gap).cells
        assert {len(edges) for edges in cell.layers["aggregate"].values()} == {kept}
        assert {edge.weight for edges in cell.layers["aggregate"].values() for edge in edges} == {1 / kept}


@settings(max_examples=40)
@given(seed=SEEDS, zeros=st.floats(-2, 4))
def test_a_network_has_what_it_uses_and_nothing_else(seed: int, zeros: float) -> None:
    """A parameter belongs to it if and only if the output of the supernet with hard logits depends on it."""
    model = searched(seed, 2.0, zeros)
    architecture = discretised(model.state_dict(), 0.1)
    if architecture.cells[0].fell_back:
        return
    hardened(model, 0.1)
    adjacency = Adjacency(torch.arange(7).expand(2, 7), torch.ones(7).double(), 7)
    model(torch.randn(7, 5).double(), adjacency).square().sum().backward()
    moved = {
        name
        for name, value in model.named_parameters()
        if not is_architecture(name) and value.grad is not None and bool(value.grad.any())
    }
    own = used_names(architecture)
    assert {name for name in model.state_dict() if always_used(name)} <= own
    # A derivative can vanish by chance (relu, saturation), a dependence cannot appear.
    assert moved <= own
    network = discrete_network(architecture, model.state_dict(), 0.0)
    assert set(network.state_dict()) == own
    assert parameter_count(network) == sum(
        model.get_parameter(name).numel() for name in own if not name.endswith(".gain")
    )


@settings(max_examples=40)
@given(seed=SEEDS, zeros=st.floats(-2, 8), cells=st.integers(1, 3))
def test_json_comes_back(seed: int, zeros: float, cells: int) -> None:
    architecture = discretised(searched(seed, 2.0, zeros, cells).state_dict(), 0.3)
    assert Architecture.from_json(json.loads(json.dumps(architecture.as_json()))) == architecture


@pytest.mark.parametrize(
    "change",
    [
        lambda cell: cell.pop("filter"),
        lambda cell: cell.update(filter=[]),
        lambda cell: cell.update(filter=[[0, 2, "identity", 1.0]]),
        lambda cell: cell.update(filter=[[0, 0, "zero", 1.0]]),
        lambda cell: cell.update(filter=[[True, 0, "identity", 1.0]]),
        lambda cell: cell.update(aggregate=[[0, 1, "mean", 1.0]]),
        lambda cell: cell.update(aggregate=[[0, 0, "mean", 2.0]]),
        lambda cell: cell.update(activate="relu"),
        lambda cell: cell.update(fell_back=1),
    ],
)
def test_other_json_is_refused(change: Callable[[dict], object]) -> None:
    told = Architecture((FALLBACK,)).as_json()
    change(told["cells"][0])
    with pytest.raises(WireError, match=r"architecture|edge"):
        Architecture.from_json(told)
    with pytest.raises(WireError, match="list of 1 to"):
        Architecture.from_json({"cells": []})


def test_table_and_drawing_show_every_edge() -> None:
    edges = (Edge(0, "sum", 0.5), Edge(2, "max", 0.5))
    layers = {
        "filter": {0: (Edge(1, "node-gate"),), 2: (Edge(0, "identity"),)},
        "aggregate": {1: edges},
        "activate": {0: (Edge(1, "elu"),)},
    }
    architecture = Architecture((CellArchitecture(layers),))
    assert table(architecture) == [
        (1, "filter", "1.1", "X", "node-gate"),
        (1, "filter", "1.3", "H", "identity"),
        (1, "aggregate", "2.2", "1.1", "sum × 0.5"),
        (1, "aggregate", "2.2", "1.3", "max × 0.5"),
        (1, "activate", "3.1", "2.2", "elu"),
    ]
    svg = drawing(architecture)
    assert len(re.findall("<line ", svg)) == 5
    assert sorted(re.findall(r">([\w.-]+)</text>", svg)) == sorted(
        ["node-gate", "identity", "sum", "max", "elu", "H", "X", "1.1", "1.3", "2.2", "3.1"]
    )


def test_a_cell_looks_at_neighbours_unless_the_search_is_sure() -> None:
    model = searched(0, spread=0.0)
    alpha = model.get_parameter("architecture.0.aggregate_operations")
    alpha.data[:, :, AGGREGATIONS.index("max")] = 0.01
    # Five operations, one of them slightly above the rest: identity has a half at about l = ln 4.
    for more, kind in ((-0.1, "max"), (0.1, "identity")):
        alpha.data[:, :, AGGREGATIONS.index("identity")] = torch.tensor(4.0).log() + more
        (cell,) = discretised(model.state_dict(), 0.1).cells
        assert {edge.operation for edges in cell.layers["aggregate"].values() for edge in edges} == {kind}
