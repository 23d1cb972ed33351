from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.between import Between, named
from fedtag.client.evidence.packs import EvidencePack, SelectedNeighbour

IDS = tuple(f"n{place}" for place in range(8))


def pack(node: str, *neighbours: SelectedNeighbour) -> EvidencePack:
    return EvidencePack(node, "scored", 1, "m", "c", 0.5, (SelectedNeighbour(node, 0, 1.0), *neighbours), ())


@settings(deadline=None, max_examples=60)
@given(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda edge: edge[0] < edge[1])))
def test_those_between_are_the_common_neighbours(edges: set[tuple[int, int]]) -> None:
    graph = nx.Graph(sorted(edges))
    graph.add_nodes_from(range(8))
    between = Between(IDS, np.array(sorted(edges), np.int64).reshape(-1, 2))
    for place in range(1, 8):
        expected = {IDS[one] for one in nx.common_neighbors(graph, 0, place)}
        found = between.nodes(pack("n0", SelectedNeighbour(IDS[place], 2, 1.0)), IDS[place])
        assert set(found) == expected
        assert len(found) == len(expected)


def test_only_second_neighbours_of_a_known_graph_have_someone_between() -> None:
    edges = np.array([(0, 1), (1, 2), (0, 3), (2, 3)])
    second, first = SelectedNeighbour("n2", 2, 1.0), SelectedNeighbour("n3", 1, 1.0)
    evidence = pack("n0", second, first)
    assert Between(IDS, edges).nodes(evidence, "n2") == ("n3", "n1")
    assert Between(IDS, edges).nodes(evidence, "n3") == ()
    assert Between(IDS, edges).nodes(evidence, "gone") == ()
    assert Between(IDS, edges).nodes(pack("gone", second), "n2") == ()
    assert Between(IDS, None).nodes(evidence, "n2") == ()


def test_at_most_three_are_named() -> None:
    assert named(()) == ""
    assert named((142,)) == "through 142"
    assert named(("a", 2, "c", "d", "e")) == "through a, 2, c and 2 more"
