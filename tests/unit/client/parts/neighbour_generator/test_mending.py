from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from fedtag.client.parts.neighbour_generator.mending import mended
from fedtag.common.graph import Graph
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator

Make = Callable[..., Graph]


def generator_with(count: float, dim: int = 4) -> NeighbourGenerator:
    """One that finds that every node lacks `count` neighbours."""
    torch.manual_seed(0)
    model = NeighbourGenerator(dim, 3)
    with torch.no_grad():
        model.count.weight.zero_()
        model.count.bias.fill_(torch.tensor(count).expm1().log())
    return model


def mend(
    graph: Graph, model: NeighbourGenerator, most: int = 5, directed: bool = False, seed: int = 0
) -> Graph:
    return mended(graph, graph, model, most, directed, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("count", "most", "each"), [(0.2, 5, 0), (1.1, 5, 1), (9.0, 5, 5), (9.0, 2, 2)])
@pytest.mark.parametrize("directed", [False, True])
def test_each_node_gets_its_neighbours(
    make_graph: Make, count: float, most: int, each: int, directed: bool
) -> None:
    graph, model = make_graph(), generator_with(count)
    found = mend(graph, model, most, directed)
    own, edges = graph.num_nodes, graph.edge_index.shape[1]
    assert found.num_nodes == own * (1 + each)
    assert torch.equal(found.x[:own], graph.x)
    assert torch.equal(found.edge_index[:, :edges], graph.edge_index)
    new = found.edge_index[:, edges:].T.tolist()
    expected = [(own + place, place // each) for place in range(own * each)]
    if not directed:
        expected += [(target, source) for source, target in expected]
    assert [tuple(pair) for pair in new] == expected
    torch.testing.assert_close(found.edge_weight[edges:], graph.edge_weight.mean().expand(len(new)))
    noise = torch.randn(own * each, 3, generator=torch.Generator().manual_seed(0))
    z = model.encoded(graph.x, graph.adjacency()).repeat_interleave(each, 0)
    torch.testing.assert_close(found.x[own:], model.feature(z + noise))


def test_generated_neighbours_have_neither_label_nor_split(make_graph: Make) -> None:
    graph = make_graph()
    found = mend(graph, generator_with(2.0))
    assert torch.equal(found.y[:12], graph.y)
    assert bool((found.y[12:] == -1).all())
    for name in ("train_mask", "val_mask", "test_mask"):
        mask = getattr(found, name)
        assert torch.equal(mask[:12], getattr(graph, name))
        assert not bool(mask[12:].any())


def test_neighbours_are_made_of_what_the_generator_may_see(make_graph: Make) -> None:
    graph, model = make_graph(), generator_with(1.0)
    seen = graph.without_edges_of(graph.test_mask)
    changed = torch.where(graph.test_mask.unsqueeze(1), graph.x + 9, graph.x)
    draws = [torch.Generator().manual_seed(0) for _ in range(2)]
    one = mended(graph, seen, model, 5, False, draws[0])
    other = mended(graph.with_features(changed), seen.with_features(changed), model, 5, False, draws[1])
    trains = ~graph.test_mask
    assert torch.equal(one.x[12:][trains], other.x[12:][trains])
    assert torch.equal(one.edge_index[:, : graph.edge_index.shape[1]], graph.edge_index)


def test_the_same_draws_give_the_same_graph(make_graph: Make) -> None:
    graph, model = make_graph(), generator_with(2.0)
    one, other, third = mend(graph, model), mend(graph, model), mend(graph, model, seed=1)
    assert torch.equal(one.x, other.x)
    assert not torch.equal(one.x, third.x)


def test_nodes_without_edges_are_mended_too(make_graph: Make) -> None:
    for nodes in (1, 4):
        found = mend(make_graph(nodes=nodes, edges=0), generator_with(1.0))
        assert found.num_nodes == 2 * nodes
        assert found.edge_weight.tolist() == [1.0] * 2 * nodes
        assert bool(found.x.isfinite().all())
        assert bool(found.adjacency().weight.isfinite().all())


def test_the_graph_that_is_mended_stays_as_it_was(make_graph: Make) -> None:
    graph = make_graph()
    before = replace(graph, x=graph.x.clone(), edge_index=graph.edge_index.clone())
    mend(graph, generator_with(2.0))
    assert torch.equal(graph.x, before.x)
    assert torch.equal(graph.edge_index, before.edge_index)
