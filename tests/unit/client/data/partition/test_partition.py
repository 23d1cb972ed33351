from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.data.folder import read_folder
from fedtag.client.data.partition import PARTITIONERS, partition
from fedtag.common.errors import ConfigError, DataError


def cut_weight(graph, parts):
    owner = np.zeros(graph.num_nodes, int)
    for client, rows in enumerate(parts):
        owner[rows] = client
    return float(graph.edge_weights[owner[graph.edges[:, 0]] != owner[graph.edges[:, 1]]].sum())


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", PARTITIONERS)
@pytest.mark.parametrize("clients", [1, 2, 3, 5])
def test_every_node_is_in_exactly_one_client(make_graph, kind, clients, directed):
    graph = make_graph(unlabelled=15, directed=directed)
    parts = partition(graph, kind, clients, 7)
    assert len(parts) == clients
    assert np.sort(np.concatenate(parts)).tolist() == list(range(graph.num_nodes))
    for rows in parts:
        assert rows.dtype == np.int64
        assert len(rows)
        assert (np.diff(rows) > 0).all()
    again = partition(graph, kind, clients, 7)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("kind", ["random", "dirichlet"])
def test_seeds_differ(make_graph, kind):
    graph = make_graph()
    first, second = partition(graph, kind, 4, 0), partition(graph, kind, 4, 1)
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", PARTITIONERS)
@pytest.mark.parametrize("clients", [0, -1, None])
def test_wrong_number_of_clients(make_graph, kind, clients):
    with pytest.raises(ConfigError, match="clients is"):
        partition(make_graph(), kind, clients, 0)


@pytest.mark.parametrize("kind", PARTITIONERS)
def test_more_clients_than_nodes(make_graph, kind):
    with pytest.raises(DataError, match="4 nodes"):
        partition(make_graph(blocks=1, size=4), kind, 5, 0)


def test_unknown_kind(make_graph):
    with pytest.raises(ConfigError, match="louvain, metis, random, dirichlet, or the path"):
        partition(make_graph(), "leiden", 2, 0)


def louvain_by_the_rule(graph, clients, seed):
    """The rule of the specification, with sorted lists instead of a heap."""
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    for (a, b), weight in zip(graph.edges.tolist(), graph.edge_weights.tolist(), strict=True):
        network.add_edge(a, b, weight=weight)
    communities = nx.community.louvain_communities(network, resolution=1, seed=seed)
    parts = [set() for _ in range(clients)]
    while communities:
        largest = sorted(
            communities, key=lambda rows: (-len(rows), min(graph.node_ids[row] for row in rows))
        )[0]
        communities.remove(largest)
        sorted(parts, key=len)[0].update(largest)  # a stable sort: of equal ones the first
    return [sorted(part) for part in parts]


@pytest.mark.parametrize("clients", [2, 3, 4])
def test_louvain_follows_the_rule(make_graph, clients):
    graph = make_graph(blocks=9, size=12)
    graph = replace(graph, edge_weights=np.ones_like(graph.edge_weights))
    parts = partition(graph, "louvain", clients, 3)
    assert [rows.tolist() for rows in parts] == louvain_by_the_rule(graph, clients, 3)


def test_louvain_breaks_ties_by_node_id(make_graph):
    graph = replace(
        make_graph(blocks=2, size=2), edges=np.zeros((0, 2), np.int64), edge_weights=np.zeros(0, np.float32)
    )
    graph = replace(graph, node_ids=("d", "c", "b", "a"))
    parts = partition(graph, "louvain", 4, 0)
    assert [rows.tolist() for rows in parts] == [[3], [2], [1], [0]]


def test_louvain_with_too_few_communities(make_graph):
    graph = make_graph(blocks=2, size=20)
    with pytest.raises(DataError, match="too few for 30 clients; ask for at most"):
        partition(graph, "louvain", 30, 0)


def test_louvain_without_weight(make_graph):
    graph = make_graph(blocks=2)
    graph = replace(graph, edge_weights=np.zeros_like(graph.edge_weights))
    assert sorted(len(rows) for rows in partition(graph, "louvain", 3, 0)) == [13, 13, 14]


def test_louvain_balances_cora(shared_data):
    graph = read_folder(shared_data / "cora_text").graph
    sizes = [len(rows) for rows in partition(graph, "louvain", 10, 0)]
    assert sum(sizes) == 2708
    assert max(sizes) < 3 * 2708 / 10
    assert min(sizes) > 2708 / 10 / 3


def test_metis_cuts_less_than_chance_and_balances(make_graph):
    graph = make_graph(blocks=4, size=30)
    parts = partition(graph, "metis", 4, 0)
    assert cut_weight(graph, parts) < 0.25 * cut_weight(graph, partition(graph, "random", 4, 0))
    assert max(len(rows) for rows in parts) <= 1.1 * 30


def test_metis_sees_weights(make_graph):
    # A cycle of eight: the two light edges are opposite each other, so the best halves are known.
    graph = make_graph(blocks=1, size=8)
    edges = np.array([[0, 1], [0, 7], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7]])
    weights = np.where([pair in ([1, 2], [5, 6]) for pair in edges.tolist()], 0.01, 1).astype(np.float32)
    parts = partition(replace(graph, edges=edges, edge_weights=weights), "metis", 2, 0)
    assert {tuple(rows.tolist()) for rows in parts} == {(2, 3, 4, 5), (0, 1, 6, 7)}


def test_metis_without_edges(make_graph):
    graph = replace(make_graph(), edges=np.zeros((0, 2), np.int64), edge_weights=np.zeros(0, np.float32))
    assert sorted(len(rows) for rows in partition(graph, "metis", 3, 0)) == [40, 40, 40]


def test_random_sizes_differ_by_one(make_graph):
    assert sorted(len(rows) for rows in partition(make_graph(), "random", 7, 0)) == [17] * 6 + [18]


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-300, 1e6), st.integers(1, 120), st.integers(0, 3), st.integers(0, 120))
def test_dirichlet_is_a_partition_for_any_alpha(make_graph, alpha, clients, seed, unlabelled):
    parts = partition(make_graph(unlabelled=unlabelled), "dirichlet", clients, seed, alpha=alpha)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(120))
    assert all(len(rows) for rows in parts)


def test_dirichlet_extremes(make_graph):
    graph = make_graph(blocks=6, size=100)
    even = [
        np.bincount(graph.labels[rows], minlength=3)
        for rows in partition(graph, "dirichlet", 4, 0, alpha=1e7)
    ]
    assert np.abs(np.array(even) - 50).max() <= 1
    skewed = partition(graph, "dirichlet", 3, 0, alpha=1e-6)
    counts = np.array([np.bincount(graph.labels[rows], minlength=3) for rows in skewed])
    # Each class is with one client, but for the single node that an empty client may have got.
    assert (counts.max(axis=0) >= 198).all()


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_dirichlet_alpha_out_of_range(make_graph, alpha):
    with pytest.raises(ConfigError, match="alpha is"):
        partition(make_graph(), "dirichlet", 3, 0, alpha=alpha)
