from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.attacks.population import (
    comparison,
    drawn_per_class,
    induced,
    population,
    side_by_side,
)
from fedtag.client.data.shadow_nodes import outside_splits, shadow_half
from fedtag.common.errors import DataError
from fedtag.common.graph import Graph


@given(st.lists(st.tuples(st.integers(-1, 3), st.sampled_from("mot")), min_size=1, max_size=30))
def test_non_members_get_the_members_classes(nodes: list[tuple[int, str]]) -> None:
    labels = np.array([label for label, _ in nodes])
    groups = np.array([group for _, group in nodes])
    found = comparison(labels, groups == "m", groups == "o")
    by_hand_members = [
        i for i, (label, group) in enumerate(nodes) if group == "m" and label >= 0 and (label, "o") in nodes
    ]
    assert found.members.tolist() == by_hand_members
    labelled = sum(group == "m" and label >= 0 for label, group in nodes)
    assert found.left_out == labelled - len(by_hand_members)
    assert found.is_empty == (not by_hand_members)
    if by_hand_members:
        assert found.weights.mean() == pytest.approx(1)
        for label in set(labels[found.members]):
            of_members = np.mean(labels[found.members] == label)
            of_others = found.weights[labels[found.others] == label].sum() / found.weights.sum()
            assert of_others == pytest.approx(of_members)


def test_sites_lie_side_by_side(noisy_graph: Callable[..., Graph]) -> None:
    first, second = noisy_graph(1, nodes=200, train=20, test=50), noisy_graph(2, nodes=300)
    whole = side_by_side([first, second])
    dense = torch.zeros(500, 500)
    dense[whole.edge_index[0], whole.edge_index[1]] = whole.edge_weight
    assert not dense[:200, 200:].any()
    apart = torch.zeros(300, 300)
    apart[second.edge_index[0], second.edge_index[1]] = 1
    assert torch.equal(dense[200:, 200:], apart)
    people = population([first, second], ["a", "b"], 0)
    assert torch.equal(people.shadow[200:], shadow_half(outside_splits(second), 0, "b"))
    assert torch.equal(people.spare | people.shadow, outside_splits(whole))
    assert not (people.spare & people.shadow).any()


def test_induced_subgraphs_keep_the_links_between_their_nodes(noisy_graph: Callable[..., Graph]) -> None:
    graph = noisy_graph(4)
    chosen = torch.arange(graph.num_nodes) % 3 == 0
    rows = chosen.nonzero().squeeze(1).tolist()
    found = induced(graph, chosen)
    wanted = {(s, t) for s, t in graph.edge_index.T.tolist() if s in rows and t in rows}
    assert {(rows[s], rows[t]) for s, t in found.edge_index.T.tolist()} == wanted
    assert torch.equal(found.x, graph.x[chosen])
    assert torch.equal(found.train_mask, graph.train_mask[chosen])


def test_folders_of_two_federations_are_refused(noisy_graph: Callable[..., Graph]) -> None:
    graph = noisy_graph(5)
    narrow = replace(graph, x=graph.x[:, :7])
    with pytest.raises(DataError, match=r"\(7, 3\), \(40, 3\); audit folders of one federation"):
        population([graph, narrow], ["a", "b"], 0)


def test_nodes_are_drawn_by_class() -> None:
    labels = np.array([0, 0, 0, 1, 1, -1, 2, 2, 0])
    eligible = np.array([True] * 8 + [False])
    drawn = drawn_per_class(labels, eligible, np.array([2, 5, 0]), np.random.default_rng(0))
    assert np.bincount(labels[drawn], minlength=3).tolist() == [2, 2, 0]
    assert not drawn[8]
    assert not drawn[5]
    seen = {
        tuple(
            np.flatnonzero(drawn_per_class(labels, eligible, np.array([1, 0, 0]), np.random.default_rng(s)))
        )
        for s in range(30)
    }
    assert seen == {(0,), (1,), (2,)}
