from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.overlap import overlap_rows
from fedtag.client.data.partition import partition
from fedtag.client.data.sites import COPIED_FROM, pooled, prepare_sites, site_graphs, site_names
from fedtag.client.data.splitting import resplit
from fedtag.client.data.text_graph import TRAIN, CrossEdges
from fedtag.common.errors import DataError


def named_edges(graph):
    order = tuple if graph.directed else frozenset
    return {
        order((graph.node_ids[a], graph.node_ids[b])): float(weight)
        for (a, b), weight in zip(graph.edges.tolist(), graph.edge_weights, strict=True)
    }


def named_nodes(graph):
    return dict(zip(graph.node_ids, zip(graph.texts, graph.labels, graph.split, strict=True), strict=True))


def test_names_are_padded():
    assert site_names(2) == ("client-00", "client-01")
    assert site_names(101)[7] == "client-007"


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.25])
@pytest.mark.parametrize("kind", ["louvain", "random"])
def test_pooling_restores_the_graph(make_graph, tmp_path, kind, overlap, directed):
    graph = resplit(make_graph(directed=directed, unlabelled=10), (0.5, 0.2, 0.3), 0)
    features = np.random.default_rng(0).normal(size=(graph.num_nodes, 3)).astype(np.float32)
    outward = CrossEdges(np.array([3]), ("far",), ("abroad",), np.ones(1, np.float32))
    graph = replace(
        graph, features=features, extra={"old": pa.array(range(graph.num_nodes))}, cross_edges=outward
    )
    folders = prepare_sites(graph, partition(graph, kind, 4, 0), overlap, 0, tmp_path)
    assert [folder.name for folder in folders] == ["client-00", "client-01", "client-02", "client-03"]
    sites = [read_folder(folder, require_training=False).graph for folder in folders]
    whole = pooled(sites)
    assert whole.num_nodes == graph.num_nodes
    assert named_edges(whole) == named_edges(graph)
    assert named_nodes(whole) == named_nodes(graph)
    back = whole.subgraph(np.argsort(whole.extra_ids("old")))
    assert back == replace(graph, name=whole.name)


def test_a_copy_lends_text_features_and_edges_only(make_graph):
    graph = resplit(make_graph(), (1, 0, 0), 0)
    graph = replace(graph, features=np.arange(120, dtype=np.float32)[:, None])
    assignment = partition(graph, "louvain", 3, 0)
    copies = overlap_rows(graph, assignment, 0.2, 5)
    owner = {int(row): client for client, rows in enumerate(assignment) for row in rows}
    for own, copied, site in zip(assignment, copies, site_graphs(graph, assignment, 0.2, 5), strict=True):
        held = [*own.tolist(), *copied.tolist()]
        assert site.node_ids == tuple(graph.node_ids[row] for row in held)
        assert site.features[:, 0].tolist() == held
        assert site.texts == tuple(graph.texts[row] for row in held)
        assert (site.labels[len(own) :] == -1).all()
        assert (site.split[len(own) :] == 0).all()
        assert site.labels[: len(own)].tolist() == graph.labels[own].tolist()
        assert (site.split[: len(own)] == TRAIN).all()
        assert named_edges(site) == named_edges(graph.subgraph(np.array(held)))
        owners = site.extra[COPIED_FROM].to_pylist()
        assert owners == [None] * len(own) + [f"client-{owner[row]:02d}" for row in copied.tolist()]


def test_cross_edges_are_known_at_both_ends(make_graph):
    graph = make_graph()
    sites = site_graphs(graph, partition(graph, "random", 3, 0), 0, 0)
    seen = {
        (site.name, site.node_ids[source], peer, foreign)
        for site in sites
        for source, foreign, peer in zip(
            site.cross_edges.source, site.cross_edges.foreign, site.cross_edges.peer, strict=True
        )
    }
    assert seen == {(peer, foreign, name, own) for name, own, peer, foreign in seen}
    assert len(seen) == 2 * (len(graph.edges) - sum(len(site.edges) for site in sites))


def test_clients_without_training_nodes(make_graph, tmp_path):
    graph = replace(make_graph(), split=np.zeros(120, np.int8))
    folders = prepare_sites(graph, partition(graph, "dirichlet", 50, 0, alpha=0.05), 0, 0, tmp_path)
    sites = [read_folder(folder, require_training=False).graph for folder in folders]
    assert len(sites) == 50
    assert sum(site.num_nodes for site in sites) == 120
    with pytest.raises(DataError, match="no labelled node is in the split train"):
        read_folder(folders[0])


def test_clashing_ids_get_the_name_in_front(make_graph):
    one, two = (
        replace(make_graph(blocks=1), name="north"),
        replace(make_graph(blocks=1, seed=1), name="south"),
    )
    link = CrossEdges(np.array([0]), ("n0003",), ("south",), np.ones(1, np.float32))
    whole = pooled([replace(one, cross_edges=link), two])
    assert whole.num_nodes == 40
    assert whole.node_ids[0] == "north/n0000"
    assert frozenset(("north/n0000", "south/n0003")) in named_edges(whole)
    assert len(whole.edges) == len(one.edges) + len(two.edges) + 1
    assert len(whole.cross_edges) == 0


def test_sites_that_disagree(make_graph):
    one = make_graph(blocks=1)
    two = replace(one, classes=("a", "b"), directed=True, features=np.zeros((20, 1), np.float32))
    with pytest.raises(DataError) as caught:
        pooled([one, two])
    report = "\n".join(caught.value.problems)
    for part in (
        "agree on one ordered list",
        "do not agree on directed",
        "same name",
        "features.npy of one width",
    ):
        assert part in report
    with pytest.raises(DataError, match="no folder to pool"):
        pooled([])
