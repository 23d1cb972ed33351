"""Herding and k-center against brute force, coarsening against its closed properties."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.condense.condenser import condense
from fedtag.client.condense.synthetic.coarsening import coarsened
from fedtag.client.condense.synthetic.herding import herded
from fedtag.client.condense.synthetic.k_center import centres
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig

Graphs = Callable[..., Graph]
seeds = st.integers(0, 2**31)


def points(seed: int, count: int = 9) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed))


@given(seeds, st.integers(0, 9))
def test_herding_is_the_greedy_choice(seed: int, count: int) -> None:
    z = points(seed)
    chosen: list[int] = []
    for _ in range(count):
        apart = {
            row: float((z[[*chosen, row]].double().mean(0) - z.double().mean(0)).norm())
            for row in range(9)
            if row not in chosen
        }
        chosen.append(min(apart, key=lambda row: apart[row]))
    assert herded(z, count).tolist() == chosen


def test_all_rows_can_be_chosen_even_where_they_are_equal() -> None:
    z = torch.ones(4, 2)
    assert sorted(herded(z, 4).tolist()) == sorted(centres(z, 4).tolist()) == [0, 1, 2, 3]


@given(seeds, st.integers(1, 9))
def test_centres_are_the_farthest_first_ones(seed: int, count: int) -> None:
    z = points(seed).double()
    chosen = [int((z - z.mean(0)).norm(dim=1).argmin())]
    while len(chosen) < count:
        apart = torch.cdist(z, z[chosen]).min(1).values
        chosen.append(max((row for row in range(9) if row not in chosen), key=lambda row: float(apart[row])))
    assert centres(points(seed), count).tolist() == chosen


@given(seeds)
def test_no_centres_have_less_than_half_the_radius(seed: int) -> None:
    z = points(seed).double()
    radius = {
        chosen: float(torch.cdist(z, z[list(chosen)]).min(1).values.max())
        for chosen in combinations(range(9), 3)
    }
    found = radius[tuple(sorted(centres(points(seed), 3).tolist()))]
    assert found <= 2 * min(radius.values()) + 1e-9


@pytest.mark.parametrize("name", ["herding", "k-center"])
def test_the_choice_does_not_depend_on_the_order_of_nodes(
    name: str, graph_of: Graphs, reordered: Callable[..., Graph]
) -> None:
    graph, settings = graph_of(), CondenserConfig()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(4))
    one = condense(name, graph, 9, settings, torch.Generator())
    other = condense(name, reordered(graph, order), 9, settings, torch.Generator())
    assert {tuple(row.tolist()) for row in one.x} == {tuple(row.tolist()) for row in other.x}


def test_links_of_a_coreset_are_those_between_its_nodes(graph_of: Graphs) -> None:
    graph = graph_of()
    found = condense("random", graph, 15, CondenserConfig(), torch.Generator().manual_seed(0))
    nodes = [int((graph.x == row).all(1).nonzero()) for row in found.x]
    assert all(bool(graph.train_mask[node]) for node in nodes)
    assert torch.equal(graph.y[nodes], found.y)
    real = {tuple(pair) for pair in graph.edge_index.T.tolist()}
    linked = {(nodes[a], nodes[b]) for a, b in found.edge_index.T.tolist()}
    assert linked == {(a, b) for a, b in real if a in nodes and b in nodes}


@given(seeds)
def test_coarsening_keeps_features_and_weights(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(12, 12, generator=generator).double()
    dense = torch.triu(dense * (dense > 0.5), 1)
    dense = dense + dense.T
    edges = dense.nonzero().T
    mask = torch.zeros(12, dtype=torch.bool)
    x = torch.randn(12, 3, generator=generator).double()
    y = torch.zeros(12, dtype=torch.int64)
    graph = Graph(x, edges, dense[edges[0], edges[1]], y, mask, mask, mask, 1)
    group = torch.cat([torch.arange(4), torch.randint(4, (8,), generator=generator)])
    found = coarsened(graph, group, torch.zeros(4, dtype=torch.int64))

    partition = torch.nn.functional.one_hot(group, 4).double()  # P, its rows sum to 1
    sizes = partition.sum(0)
    torch.testing.assert_close(found.x, (partition.T @ x) / sizes.unsqueeze(1))
    whole = partition.T @ dense @ partition
    scale = (sizes.unsqueeze(0) * sizes.unsqueeze(1)).sqrt()
    links = torch.zeros(4, 4, dtype=torch.float64)
    links[found.edge_index[0], found.edge_index[1]] = found.edge_weight
    torch.testing.assert_close(links, whole / scale * (1 - torch.eye(4)))
    torch.testing.assert_close((links * scale).sum() + whole.trace(), dense.sum())
    assert found.copies == bool((sizes == 1).any())


def test_groups_of_a_coarsening_keep_to_classes(graph_of: Graphs) -> None:
    graph = graph_of()
    # Feature 0 tells the class of a training node, so that a mixture of classes would show.
    told = graph.with_features(torch.nn.functional.one_hot(graph.y, 3).float())
    found = condense("coarsening", told, 6, CondenserConfig(), torch.Generator().manual_seed(0))
    assert torch.equal(found.x.argmax(1), found.y)
