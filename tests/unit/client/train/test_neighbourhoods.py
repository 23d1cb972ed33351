from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedtag.client.train.neighbourhoods import Neighbourhoods, Subgraph
from fedtag.common.graph import Adjacency
from tests.unit.client.train.graphs import graph


def dense(adjacency: Adjacency) -> Tensor:
    """Â[target, source]."""
    found = torch.zeros(adjacency.num_nodes, adjacency.num_nodes)
    found[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.weight
    return found


def drawn(adjacency: Adjacency, targets: list[int], hops: int, fan_out: int, seed: int = 0) -> Subgraph:
    generator = torch.Generator().manual_seed(seed)
    return Neighbourhoods(adjacency).drawn(torch.tensor(targets), hops, fan_out, generator)


def distances(adjacency: Adjacency, targets: list[int]) -> dict[int, int]:
    """By networkx, from the nearest target."""
    one = nx.DiGraph(adjacency.edge_index.T.tolist()).reverse()
    return dict(nx.multi_source_dijkstra_path_length(one, set(targets)))


@given(st.integers(0, 50), st.integers(0, 3), st.integers(0, 4))
def test_a_drawn_part_is_the_induced_one(seed: int, hops: int, fan_out: int) -> None:
    """It has the targets where it says, every entry between its nodes, and none else, in the order of the whole."""
    adjacency = graph(seed=seed)
    targets = torch.randperm(60, generator=torch.Generator().manual_seed(seed))[:4].tolist()
    part = drawn(adjacency, targets, hops, fan_out, seed)
    assert part.nodes[part.targets].tolist() == targets
    assert part.nodes.tolist() == sorted(set(part.nodes.tolist()))
    whole = dense(adjacency)[part.nodes][:, part.nodes]
    assert torch.equal(dense(part.adjacency) != 0, whole != 0)
    source, target = part.adjacency.edge_index
    assert (target * len(part.nodes) + source).diff().gt(0).all()


@given(st.integers(0, 50), st.integers(1, 3), st.integers(1, 4))
def test_entries_of_others_sum_to_what_they_sum_to_in_the_whole_graph(
    seed: int, hops: int, fan_out: int
) -> None:
    """Loops keep their weight; what is complete keeps all of it, to the bit."""
    adjacency = graph(seed=seed)
    part = drawn(adjacency, [0, 5, 59], hops, fan_out, seed)
    found, whole = dense(part.adjacency), dense(adjacency)
    assert torch.equal(found.diagonal(), whole.diagonal()[part.nodes])
    off = found - found.diagonal().diag()
    wanted = (whole - whole.diagonal().diag())[part.nodes]
    some = off.sum(1) > 0
    torch.testing.assert_close(off.sum(1)[some], wanted.sum(1)[some])
    complete = (wanted != 0).sum(1) == (off != 0).sum(1)
    assert torch.equal(found[complete], whole[part.nodes][:, part.nodes][complete])


@given(st.integers(0, 50), st.integers(1, 4))
def test_a_node_brings_in_no_more_than_the_fan_out(seed: int, fan_out: int) -> None:
    """One hop from one node: as many neighbours as there are, or the fan-out; all of them real."""
    adjacency = graph(seed=seed)
    for node in (0, 1, 59):
        near = set((dense(adjacency)[node] != 0).nonzero().squeeze(1).tolist()) - {node}
        part = drawn(adjacency, [node], 1, fan_out, seed)
        brought = set(part.nodes.tolist()) - {node}
        assert brought <= near
        assert len(brought) == min(fan_out, len(near))
    whole = drawn(adjacency, [0, 1, 59], 3, fan_out, seed)
    assert len(whole.nodes) <= 3 * sum(fan_out**hop for hop in range(4))


def test_every_neighbour_is_as_likely() -> None:
    """Of a hub with many neighbours; five standard errors."""
    adjacency, near = graph(), Neighbourhoods(graph())
    neighbours = (dense(adjacency)[0] != 0).sum() - 1
    counts, draws, generator = torch.zeros(60), 4000, torch.Generator().manual_seed(0)
    for _ in range(draws):
        counts[near.drawn(torch.tensor([0]), 1, 4, generator).nodes] += 1
    counts = counts[(dense(adjacency)[0] != 0)][1:]
    share = 4 / int(neighbours)
    error = (share * (1 - share) / draws) ** 0.5
    assert ((counts / draws - share).abs() < 5 * error).all()


def test_the_same_seed_draws_the_same_and_another_one_something_else() -> None:
    adjacency = graph()
    one, again, other = (drawn(adjacency, [0, 3], 2, 2, seed) for seed in (1, 1, 2))
    assert torch.equal(one.nodes, again.nodes)
    assert torch.equal(one.adjacency.weight, again.adjacency.weight)
    assert one.nodes.tolist() != other.nodes.tolist()


@given(st.integers(0, 50), st.integers(0, 3))
def test_what_is_reached_are_all_nodes_so_near_with_all_entries_of_nearer_ones(seed: int, hops: int) -> None:
    adjacency = graph(seed=seed)
    targets = [7, 0, 59]
    part = Neighbourhoods(adjacency).reached(torch.tensor(targets), hops)
    far = distances(adjacency, targets)
    assert part.nodes.tolist() == sorted(node for node, hop in far.items() if hop <= hops)
    assert part.nodes[part.targets].tolist() == targets
    found, whole = dense(part.adjacency), dense(adjacency)[part.nodes][:, part.nodes]
    for row, node in enumerate(part.nodes.tolist()):
        wanted = whole[row] if far[node] < hops else torch.eye(len(part.nodes))[row] * whole[row]
        assert torch.equal(found[row], wanted)


@pytest.mark.parametrize("hops", [0, 2])
def test_a_graph_without_links_has_parts(hops: int) -> None:
    adjacency = graph(5, 0)
    assert drawn(adjacency, [4, 1], hops, 3).nodes.tolist() == [1, 4]
    assert Neighbourhoods(adjacency).reached(torch.tensor([4, 1]), hops).nodes.tolist() == [1, 4]
