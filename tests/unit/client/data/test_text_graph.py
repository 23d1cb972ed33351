from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, CrossEdges, canonical_edges
from fedtag.common.errors import DataError

pairs_of = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=40)


@given(pairs_of, st.booleans())
def test_canonical_edges_are_those_of_a_dictionary(pairs, directed):
    weights = np.arange(len(pairs), dtype=np.float32)
    first: dict[tuple[int, int], float] = {}
    loops = 0
    for (a, b), weight in zip(pairs, weights, strict=True):
        if a == b:
            loops += 1
            continue
        first.setdefault((a, b) if directed else (min(a, b), max(a, b)), float(weight))
    edges, kept, found_loops, duplicates = canonical_edges(
        np.array(pairs, np.int64).reshape(-1, 2), weights, directed
    )
    assert list(map(tuple, edges.tolist())) == sorted(first)
    assert kept.tolist() == [first[edge] for edge in sorted(first)]
    assert found_loops == loops
    assert duplicates == len(pairs) - loops - len(first)


@pytest.mark.parametrize("directed", [False, True])
def test_to_graph_matches_networkx_adjacency(make_graph, directed):
    graph = make_graph(blocks=3, size=6, directed=directed)
    network = nx.DiGraph() if directed else nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_weighted_edges_from(zip(*graph.edges.T.tolist(), graph.edge_weights.tolist(), strict=True))
    tensors = graph.to_graph(torch.zeros(graph.num_nodes, 2))
    dense = torch.zeros(graph.num_nodes, graph.num_nodes)
    dense[tensors.edge_index[0], tensors.edge_index[1]] = tensors.edge_weight
    assert np.array_equal(dense.numpy(), nx.to_numpy_array(network))


def test_masks_cover_labelled_nodes_only(make_graph):
    graph = make_graph(blocks=1, size=4)
    graph = replace(graph, labels=np.array([0, 1, -1, 2]), split=np.array([TRAIN, VAL, TRAIN, TEST], np.int8))
    tensors = graph.to_graph(torch.zeros(4, 1))
    assert tensors.train_mask.tolist() == [True, False, False, False]
    assert tensors.val_mask.tolist() == [False, True, False, False]
    assert tensors.test_mask.tolist() == [False, False, False, True]
    assert tensors.num_classes == 3


def test_wrong_number_of_feature_rows_is_refused(make_graph):
    with pytest.raises(DataError, match="3 feature rows"):
        make_graph(blocks=1, size=4).to_graph(torch.zeros(3, 1))


def test_subgraph_is_the_induced_one_in_the_given_order(make_graph):
    graph = make_graph(blocks=3, size=8)
    graph = replace(
        graph,
        features=np.arange(24, dtype=np.float32)[:, None],
        extra={"old": pa.array(range(100, 124))},
        cross_edges=CrossEdges(np.array([5, 6]), ("x", "y"), ("p", "q"), np.ones(2, np.float32)),
        split=np.full(24, NONE, np.int8),
    )
    rows = np.array([20, 5, 1, 13, 2, 3])
    part = graph.subgraph(rows)
    expected = {
        frozenset((graph.node_ids[a], graph.node_ids[b])): float(w)
        for (a, b), w in zip(graph.edges.tolist(), graph.edge_weights, strict=True)
        if a in rows and b in rows
    }
    found = {
        frozenset((part.node_ids[a], part.node_ids[b])): float(w)
        for (a, b), w in zip(part.edges.tolist(), part.edge_weights, strict=True)
    }
    assert found == expected
    assert part.node_ids == tuple(graph.node_ids[row] for row in rows)
    assert part.features[:, 0].tolist() == rows.tolist()
    assert part.extra_ids("old").tolist() == [120, 105, 101, 113, 102, 103]
    assert part.cross_edges == CrossEdges(np.array([1]), ("x",), ("p",), np.ones(1, np.float32))


def test_extra_ids_name_what_is_missing(make_graph):
    graph = make_graph(blocks=1, size=2)
    with pytest.raises(DataError, match="no column 'index'"):
        graph.extra_ids("index")
    with pytest.raises(DataError, match="whole number for every node"):
        replace(graph, extra={"index": pa.array(["a", "b"])}).extra_ids("index")
