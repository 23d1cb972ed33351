from __future__ import annotations

import numpy as np
import pytest

from fedtag.client.data.overlap import overlap_rows
from fedtag.client.data.partition import partition
from fedtag.common.errors import ConfigError


def neighbours_across(graph, own):
    own = set(own.tolist())
    pairs = [tuple(edge) for edge in graph.edges.tolist()]
    return {b for a, b in pairs if a in own} | {a for a, b in pairs if b in own} - own


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 2.0, 50.0])
def test_counts_and_neighbours_first(make_graph, share, directed):
    graph = make_graph(directed=directed)
    assignment = partition(graph, "random" if share == 0.3 else "louvain", 3, 0)
    for own, copied in zip(assignment, overlap_rows(graph, assignment, share, 1), strict=True):
        assert len(copied) == min(round(share * len(own)), graph.num_nodes - len(own))
        assert len(np.unique(copied)) == len(copied)
        assert not set(own) & set(copied)
        near = neighbours_across(graph, own) - set(own.tolist())
        held = set(copied.tolist())
        assert held <= near or near <= held


def test_seeded(make_graph):
    graph = make_graph()
    assignment = partition(graph, "random", 3, 0)
    first, again, other = (overlap_rows(graph, assignment, 0.2, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("share", [-0.1, float("nan"), float("inf")])
def test_share_out_of_range(make_graph, share):
    graph = make_graph()
    with pytest.raises(ConfigError, match="overlap is"):
        overlap_rows(graph, partition(graph, "random", 2, 0), share, 0)
