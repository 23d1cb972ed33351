"""What `train.batch-size = auto` foretells of parts, against the parts themselves: most of all in a dense core."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedtag.client.train.batches import Batching, gathered, part_of
from fedtag.client.train.capacity import MARGIN, batch_bytes
from fedtag.client.train.examples import Examples
from fedtag.client.train.footprint import Footprint, counted
from fedtag.client.train.neighbourhoods import Neighbourhoods
from fedtag.client.train.part_sizes import PartSizes
from fedtag.common.graph import Adjacency, Graph, normalised_adjacency
from fedtag.common.models.classifier import NodeClassifier, hops_of, stages_of
from tests.unit.client.train.graphs import CLASSES, MODELS, WIDTH, graph, model

CPU = torch.device("cpu")
CORE, OTHERS = 250, 3000


def with_core() -> Adjacency:
    """A clique, and very many more nodes with a link or two each: on average a node has few links."""
    inside = torch.combinations(torch.arange(CORE)).T
    generator = torch.Generator().manual_seed(0)
    outside = torch.stack(
        [torch.arange(CORE, CORE + OTHERS), torch.randint(0, CORE + OTHERS, (OTHERS,), generator=generator)]
    )
    pairs = torch.cat([inside, outside], dim=1)
    pairs = pairs[:, pairs[0] != pairs[1]].sort(0).values.unique(dim=1)
    return normalised_adjacency(torch.cat([pairs, pairs.flip(0)], dim=1), CORE + OTHERS)


@given(
    st.integers(0, 99),
    st.integers(2, 40),
    st.integers(0, 400),
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(0, 4),
)
def test_no_part_is_larger_than_foretold(
    seed: int, nodes: int, links: int, size: int, hops: int, fan_out: int
) -> None:
    adjacency = graph(nodes, links, seed)
    near, sizes = Neighbourhoods(adjacency), PartSizes(adjacency.edge_index_without_loops, nodes)
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(nodes, generator=generator)[:size]
    drawn, told = near.drawn(some, hops, fan_out, generator), sizes.drawn(size, hops, fan_out)
    assert drawn.nodes.numel() <= told.nodes <= nodes
    assert drawn.adjacency.edge_index_without_loops.shape[1] <= told.links
    assert near.sources.entries_of(drawn.nodes).numel() <= told.entries
    told = sizes.reached(size, hops)
    for targets in torch.arange(nodes).split(size):
        reached = near.reached(targets, hops)
        assert reached.nodes.numel() <= told.nodes <= nodes
        assert reached.adjacency.edge_index_without_loops.shape[1] <= told.links
        assert near.sources.entries_of(reached.nodes).numel() <= told.entries


def test_sizes_by_hand() -> None:
    """A clique of 250 nodes among nodes of a link or two."""
    sizes = PartSizes(with_core().edge_index_without_loops, CORE + OTHERS)
    drawn = sizes.drawn(10, 1, 4)
    assert (drawn.nodes, drawn.links) == (50, 50 * 49)
    assert drawn.entries >= 50 + 50 * (CORE - 1)
    assert sizes.drawn(10, 2, 0).nodes == CORE + OTHERS
    reached = sizes.reached(10, 1)
    assert reached.links >= 10 * (CORE - 1)
    assert sizes.reached(10, 0)[:2] == (10, 0)


def examples(adjacency: Adjacency) -> Examples:
    nodes = adjacency.num_nodes
    x = torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(1))
    return Examples(x, adjacency, torch.arange(nodes) % CLASSES, torch.ones(nodes, dtype=torch.bool))


def as_graph(one: Examples) -> Graph:
    edges, none = one.adjacency.edge_index_without_loops, torch.zeros_like(one.mask)
    weight = torch.ones(edges.shape[1])
    return Graph(one.x, edges, weight, one.y, one.mask, none, none, CLASSES)


def step_bytes(kind: NodeClassifier, whole: Examples, near: Neighbourhoods, size: int, fan_out: int) -> int:
    """The most of a step on a batch of nodes of the core, with the search for its part."""
    generator = torch.Generator().manual_seed(2)

    def step() -> None:
        part = near.drawn(torch.arange(size), hops_of(kind), fan_out, generator)
        one = part_of(whole, part, CPU)
        one.loss(kind(one.x, one.adjacency, generator)).backward()

    near.drawn(torch.arange(2), 1, 1, generator)  # What is made once is part of no step.
    return counted(step)


def pass_bytes(kind: NodeClassifier, whole: Examples, near: Neighbourhoods, size: int) -> int:
    """The most of the first part of a pass, which lies in the core, through each stage."""
    values: tuple[Tensor, ...] = (whole.x,)
    most = 0
    with torch.no_grad():
        for stage in stages_of(kind):

            def through(stage=stage, values=values) -> None:  # type: ignore[no-untyped-def]
                part = near.reached(torch.arange(size), stage.hops)
                stage.apply(tuple(gathered(one, part.nodes, CPU) for one in values), part.adjacency)

            most = max(most, counted(through))
            values = stage.apply(values, whole.adjacency)
    return most


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("size", "fan_out"), [(16, 3), (64, 3), (64, 20), (200, 1)])
def test_a_batch_in_a_dense_core_takes_no_more_than_foretold(kind: str, size: int, fan_out: int) -> None:
    one, whole = model(kind), examples(with_core())
    near = Neighbourhoods(whole.adjacency)
    foretold = MARGIN * batch_bytes(one, as_graph(whole), fan_out, CPU)(size)
    measured = max(step_bytes(one, whole, near, size, fan_out), pass_bytes(one, whole, near, size))
    assert measured <= foretold


def test_as_many_links_a_node_as_on_average_foretell_too_little() -> None:
    """So that the bound by degrees is what the test above is about."""
    one, whole = model("gat"), examples(with_core())
    nodes, links = whole.adjacency.num_nodes, whole.adjacency.edge_index_without_loops.shape[1]
    grown = 64 * (1 + 3 + 9)
    average = MARGIN * Footprint.of(one, WIDTH).bytes(grown, links * grown // nodes)
    assert step_bytes(one, whole, Neighbourhoods(whole.adjacency), 64, 3) > average


def test_a_small_batch_is_foretold_to_take_little() -> None:
    """The bound is of use: far below what the whole graph takes, where links lie evenly."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randint(0, 5000, (2, 20_000), generator=generator)
    pairs = pairs[:, pairs[0] != pairs[1]].sort(0).values.unique(dim=1)
    whole = examples(normalised_adjacency(torch.cat([pairs, pairs.flip(0)], dim=1), 5000))
    one = model("gcn")
    needed = batch_bytes(one, as_graph(whole), 3, CPU)
    links = whole.adjacency.edge_index_without_loops.shape[1]
    assert needed(16) < Footprint.of(one, WIDTH).bytes(5000, links) / 4
    assert Batching(16).splits(5000)
