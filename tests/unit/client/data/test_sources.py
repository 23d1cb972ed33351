from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from fedtag.client.data.sources import load_source
from fedtag.client.data.writing import write_folder
from fedtag.common.errors import DataError


def feature_file(path, **changes):
    x = csr_array(np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]], np.float32))
    content = {
        "x_data": x.data,
        "x_indices": x.indices,
        "x_indptr": x.indptr,
        "x_shape": np.array(x.shape),
        "y": np.array([0, -1, 1], np.int16),
        "edge_index": np.array([[0, 2], [1, 1]], np.int32),
        "train_mask": np.array([True, True, False]),
    }
    np.savez(path, **{name: value for name, value in (content | changes).items() if value is not None})
    return str(path)


def test_feature_graph(tmp_path):
    graph = load_source(feature_file(tmp_path / "tiny.npz"))
    assert graph.name == "tiny"
    assert graph.features.tolist() == [[1, 0, 2], [0, 0, 0], [0, 3, 0]]
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.split.tolist() == [1, 0, 0]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.classes == ("0", "1")
    assert load_source(str(write_folder(graph, tmp_path / "folder"))) == graph


@pytest.mark.parametrize(
    "changes",
    [
        {"y": None},
        {"y": np.array([0, 1])},
        {"edge_index": np.array([[0], [9]])},
        {"x_data": np.array([1, np.nan, 2], np.float32)},
        {"x_indices": np.array([0, 9, 1])},
    ],
)
def test_malformed_feature_graph(tmp_path, changes):
    with pytest.raises(DataError, match="is not a feature graph"):
        load_source(feature_file(tmp_path / "tiny.npz", **changes))


def test_file_that_is_no_archive(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="is not a feature graph"):
        load_source(str(tmp_path / "x.npz"))
    with pytest.raises(DataError, match="There is no file"):
        load_source(str(tmp_path / "y.npz"))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "train"),
    [("acm", 3025, 13128, 0), ("dblp", 17716, 52867, 0), ("planetoid_cora", 2708, 5278, 140)],
)
def test_real_feature_graphs(shared_data, name, nodes, edges, train):
    graph = load_source(str(shared_data / "graphs" / f"{name}.npz"))
    assert (graph.num_nodes, len(graph.edges), int((graph.split == 1).sum())) == (nodes, edges, train)


def test_pydocs_by_name():
    assert load_source("pydocs:scipy").name.startswith("pydocs (SciPy ")


def test_unknown_source():
    with pytest.raises(DataError, match="neither a folder nor a file here; give a data folder"):
        load_source("no_such_thing")


def test_public_set_as_pyg_loads_it(tmp_path):
    # Planetoid's own layout of files, so that PyG has nothing to download.
    raw = tmp_path / "cora" / "Cora" / "raw"
    raw.mkdir(parents=True)
    n, classes = 1708, 3
    rng = np.random.default_rng(0)
    labels = np.eye(classes)[rng.integers(0, classes, n + 1000)]
    x = csr_array((rng.random((n + 1000, 4)) < 0.5).astype(np.float32))
    neighbours = {node: [(node + 1) % 2708, (node - 1) % 2708] for node in range(2708)}
    files = {
        "x": csr_matrix(x[:140]), "allx": csr_matrix(x[:n]), "tx": csr_matrix(x[n:]),
        "y": labels[:140], "ally": labels[:n], "ty": labels[n:], "graph": neighbours,
    }  # fmt: skip
    for name, content in files.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(content))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, range(n, 2708))) + "\n")
    graph = load_source("Cora", cache=tmp_path)
    assert graph.num_nodes == len(graph.edges) == 2708
    assert np.bincount(graph.split).tolist() == [1068, 140, 500, 1000]
    assert graph.labels.tolist() == labels.argmax(axis=1).tolist()
    assert np.array_equal(graph.features, x.toarray())
