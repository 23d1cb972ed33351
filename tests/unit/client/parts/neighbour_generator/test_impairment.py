from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.parts.neighbour_generator.impairment import Impaired, impaired
from fedtag.common.graph import Graph, normalised_adjacency

Make = Callable[..., Graph]


def cut(graph: Graph, share: float, eligible: torch.Tensor | None = None, seed: int = 0) -> Impaired:
    every = torch.ones(graph.num_nodes, dtype=torch.bool)
    return impaired(
        graph, share, every if eligible is None else eligible, torch.Generator().manual_seed(seed)
    )


def place_of(row: torch.Tensor, rows: torch.Tensor) -> int:
    """The only row of a table that equals the given one."""
    (place,) = (rows == row).all(1).nonzero().flatten().tolist()
    return int(place)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_what_is_left_and_what_is_lacking_are_those_of_a_loop_over_edges(
    make_graph: Make, share: float
) -> None:
    graph = make_graph()
    task = cut(graph, share)
    hidden = {row for row in range(12) if any(torch.equal(graph.x[row], one) for one in task.hidden_x)}
    assert len(hidden) == int(share * 12)
    visible = [row for row in range(12) if row not in hidden]
    assert torch.equal(task.x, graph.x[visible])
    lacking: dict[int, set[int]] = {row: set() for row in visible}
    inner = []
    for position, (source, target) in enumerate(graph.edge_index.T.tolist()):
        if source in hidden and target not in hidden:
            lacking[target].add(source)
        if source not in hidden and target not in hidden:
            inner.append((visible.index(source), visible.index(target), float(graph.edge_weight[position])))
    for place, row in enumerate(visible):
        found = task.lacking.index[task.lacking.ptr[place] : task.lacking.ptr[place + 1]]
        assert {place_of(task.hidden_x[one], graph.x) for one in found} == lacking[row]
    pairs = torch.tensor([edge[:2] for edge in inner], dtype=torch.int64).view(-1, 2).T
    expected = normalised_adjacency(pairs, len(visible), torch.tensor([edge[2] for edge in inner]))
    assert torch.equal(task.adjacency.edge_index, expected.edge_index)
    torch.testing.assert_close(task.adjacency.weight, expected.weight)


def test_a_directed_edge_lacks_its_source_only() -> None:
    graph = Graph(
        x=torch.arange(4.0).view(4, 1),
        edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]),
        edge_weight=torch.ones(4),
        y=torch.zeros(4, dtype=torch.int64),
        train_mask=torch.zeros(4, dtype=torch.bool),
        val_mask=torch.zeros(4, dtype=torch.bool),
        test_mask=torch.zeros(4, dtype=torch.bool),
        num_classes=1,
    )
    for seed in range(8):
        task = cut(graph, 0.3, seed=seed)
        hidden = int(task.hidden_x[0, 0])
        heirs = task.x[:, 0][task.lacking.width > 0]
        assert heirs.tolist() == [(hidden + 1) % 4]


def test_nothing_of_hidden_nodes_is_an_input(make_graph: Make) -> None:
    graph = make_graph()
    task = cut(graph, 0.5)
    hidden = torch.tensor([any(torch.equal(x, one) for one in task.hidden_x) for x in graph.x])
    poisoned = torch.where(hidden.unsqueeze(1), torch.nan, graph.x)
    other = cut(replace(graph, x=poisoned), 0.5)
    assert torch.equal(other.x, task.x)
    assert torch.equal(other.adjacency.weight, task.adjacency.weight)
    assert bool(other.hidden_x.isnan().all())


def test_labels_and_splits_play_no_part(make_graph: Make) -> None:
    graph = make_graph()
    blind = replace(
        graph, y=-graph.y - 1, train_mask=graph.test_mask, val_mask=graph.train_mask, test_mask=graph.val_mask
    )
    one, other = cut(graph, 0.4), cut(blind, 0.4)
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.lacking.index, other.lacking.index)


def test_nodes_that_are_not_eligible_are_neither_seen_nor_hidden(make_graph: Make) -> None:
    graph = make_graph()
    task = cut(graph, 0.5, ~graph.test_mask)
    assert len(task.x) + len(task.hidden_x) == 8
    seen = torch.cat([task.x, task.hidden_x])
    assert not any(torch.equal(one, own) for one in seen for own in graph.x[graph.test_mask])


@given(
    nodes=st.integers(0, 9), edges=st.integers(0, 30), share=st.floats(0.01, 0.99), seed=st.integers(0, 99)
)
def test_a_node_is_left_wherever_there_is_one(nodes: int, edges: int, share: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, max(nodes, 1), (2, edges if nodes else 0), generator=draw)
    pairs = pairs[:, pairs[0] != pairs[1]]
    blank = torch.zeros(nodes, dtype=torch.bool)
    graph = Graph(
        torch.randn(nodes, 2), pairs, torch.ones(pairs.shape[1]), blank.long(), blank, blank, blank, 1
    )
    task = cut(graph, share, seed=seed)
    assert len(task.x) == nodes - int(share * nodes)
    assert len(task.x) > 0 or nodes == 0
    assert task.lacking.num_rows == len(task.x)
    assert task.lacking.index.numel() == 0 or int(task.lacking.index.max()) < len(task.hidden_x)
