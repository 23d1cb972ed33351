from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.partition import partition
from fedtag.client.data.partition.published import read_published, with_published_split
from fedtag.client.data.sources import load_source
from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL
from fedtag.common.errors import ConfigError, DataError


@pytest.fixture
def four(make_graph):
    graph = make_graph(blocks=1, size=4)
    return replace(graph, node_ids=(10, 11, 12, 13), extra={"planetoid_index": pa.array([3, 2, 1, 0])})


def write(path, clients, key="node_ids"):
    path.write_text(json.dumps({"clients": [{key: nodes} for nodes in clients]}))
    return path


def lists(parts):
    return [rows.tolist() for rows in parts]


def test_json_by_node_id_and_by_column(four, tmp_path):
    plain = write(tmp_path / "a.json", [[12, 10], [11, 13]])
    assert lists(partition(four, plain, 2, 0)) == [[0, 2], [1, 3]]
    assert lists(partition(four, str(plain), None, 0)) == [[0, 2], [1, 3]]
    planetoid = write(tmp_path / "b.json", [[0, 1], [2, 3]], "planetoid_ids")
    assert lists(partition(four, planetoid, 2, 0)) == [[2, 3], [0, 1]]
    named = replace(four, extra={"row": pa.array([0, 1, 2, 3])})
    assert lists(partition(named, write(tmp_path / "c.json", [[0, 1], [2, 3]]), 2, 0, ids_column="row")) == [
        [0, 1],
        [2, 3],
    ]


def test_npz_masks_replace_the_split(four, tmp_path):
    path = tmp_path / "p.npz"
    masks = {"train_0": [True, False], "val_0": [False, True], "test_0": [False, False]}
    masks |= {"train_1": [False, False], "val_1": [False, False], "test_1": [True, False]}
    np.savez(path, nodes_0=[3, 0], nodes_1=[1, 2], **masks)
    four = replace(four, split=np.full(4, VAL, np.int8))
    assert lists(partition(four, path, None, 0)) == [[0, 3], [1, 2]]
    assert with_published_split(four, path).split.tolist() == [TRAIN, NONE, TEST, VAL]
    unlabelled = replace(four, labels=np.array([-1, 0, 0, 0]))
    assert with_published_split(unlabelled, path).split.tolist() == [NONE, NONE, TEST, VAL]


def test_a_file_without_masks_leaves_the_split(four, tmp_path):
    path = write(tmp_path / "a.json", [[12, 10], [11, 13]])
    assert with_published_split(four, path) is four


def test_all_faults_at_once(four, tmp_path):
    path = write(tmp_path / "a.json", [[10, 11, 99], [11], []])
    with pytest.raises(DataError) as caught:
        partition(four, path, 3, 0)
    report = "\n".join(caught.value.problems)
    assert "nodes 99 are not ids of nodes" in report
    assert "nodes 11 are named more than once" in report
    assert "nodes 12, 13 of 'planted' are in no client" in report
    assert "client 2 has no node" in report


def test_number_of_clients_must_fit(four, tmp_path):
    with pytest.raises(ConfigError, match="over 2 clients, not 5"):
        partition(four, write(tmp_path / "a.json", [[12, 10], [11, 13]]), 5, 0)


@pytest.mark.parametrize("content", ["{", "[1]", '{"clients": [{"ids": [1]}]}', '{"clients": 3}'])
def test_malformed_json(four, tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match="is not a partition"):
        partition(four, tmp_path / "a.json", 2, 0)


def test_openfgl_cora(shared_data):
    graph = read_folder(shared_data / "cora_text").graph
    path = shared_data / "partitions" / "openfgl_cora_louvain_20.json"
    parts = partition(graph, path, 20, 0)
    clients = json.loads(path.read_text())["clients"]
    index = graph.extra_ids("planetoid_index")
    assert sum(map(len, parts)) == 2708
    assert len(np.unique(np.concatenate(parts))) == 2708
    for rows, client in zip(parts, clients, strict=True):
        assert set(index[rows].tolist()) == set(client["planetoid_ids"])
        assert len(graph.subgraph(rows).edges) == client["num_edges_undirected"]


@pytest.mark.parametrize("clients", [5, 10])
@pytest.mark.parametrize("source", ["cora_text", "graphs/planetoid_cora.npz"])
def test_seeded_cora_partitions(shared_data, clients, source):
    graph = load_source(str(shared_data / source)).graph
    path = shared_data / "partitions" / f"cora_louvain_{clients}_seed2024.npz"
    graph = with_published_split(graph, path)
    published = read_published(path, graph)
    with np.load(path) as arrays:
        for client, rows in enumerate(published.rows):
            assert len(rows) == len(arrays[f"nodes_{client}"])
            assert len(graph.subgraph(rows).edges) * 2 == arrays[f"edges_{client}"].shape[1]
            for name, value in (("train", TRAIN), ("val", VAL), ("test", TEST)):
                assert (graph.split[rows] == value).sum() == arrays[f"{name}_{client}"].sum()
