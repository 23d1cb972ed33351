from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from fedtag.client.data.reading import arrays
from fedtag.client.data.sources import load_source
from fedtag.client.data.splitting import drawn_split
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
    graph = load_source(feature_file(tmp_path / "tiny.npz")).graph
    assert graph.name == "tiny"
    assert graph.features.tolist() == [[1, 0, 2], [0, 0, 0], [0, 3, 0]]
    assert graph.labels.tolist() == [0, -1, 1]
    assert graph.split.tolist() == [1, 0, 0]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.classes == ("0", "1")
    assert load_source(str(write_folder(graph, tmp_path / "folder"))).graph == graph


def rows(*values):
    return np.array(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "y is missing"),
        ({"y": rows(0, 1)}, r"y is \[2\] of int64, and must be whole numbers of the shape \[3\]"),
        ({"y": rows(0.5, 1, 1)}, "y holds 0.5 at node 0; give whole numbers"),
        ({"y": rows(0, 1, 1_000_000)}, "y is 1000000 at node 2, where 3 classes occur"),
        ({"y": rows(0, 1, 2**60)}, "at node 2"),
        ({"edge_index": rows([0], [9])}, "edge_index holds 9 at edge 0; give rows of x, from 0 to 2"),
        ({"edge_index": rows([0, 1], [1, 2], [0, 1])}, None),
        ({"edge_index": rows([0, 1, 2], [1, 2, 0], [0, 1, 0])}, r"edge_index is \[3, 3\] of int64.*\[2, E\]"),
        ({"edge_index": rows([0], [1.7])}, "edge_index holds 1.7 at edge 0; give whole numbers"),
        ({"x_data": np.array([1, np.nan, 2], np.float32)}, "x holds nan at node 0"),
        ({"x_data": np.array([1, 1, 1e30], np.float32)}, "x holds 1e[+]30 at node 2"),
        ({"x_indices": rows(0, 9, 1)}, "no matrix in CSR"),
        ({"x_indptr": None}, "x_indptr is missing"),
        ({"x_data": None}, "holds no features x"),
        ({"val_mask": rows(True, False, False)}, "train_mask and val_mask share 1 node"),
        ({"train_mask": rows(0.5, 1)}, r"train_mask is \[2\] of float64, and must be 3 times true or false"),
        ({"train_mask": rows(0, 7)}, "train_mask is"),
    ],
)
def test_arrays_at_fault_are_named(tmp_path, changes, message):
    path = feature_file(tmp_path / "tiny.npz", **changes)
    if message is None:
        assert load_source(path).graph.edges.tolist() == [[0, 1], [1, 2]], "one reading only"
        return
    with pytest.raises(DataError, match=f"tiny.npz: .*{message}") as caught:
        load_source(path)
    for foreign in ("broadcast", "too many indices", "features.npy", "nodes.csv", "meta.json"):
        assert foreign not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"y": rows([0], [-1], [1])},
        {"y": rows(0.0, np.nan, 1.0)},
        {"edge_index": rows([0.0, 2.0], [1.0, 1.0])},
        {"edge_index": rows([0, 1], [2, 1], [1, 0])},
        {"train_mask": rows([True, False], [True, True], [False, True])},
        {"train_mask": rows(0, 1)},
        {"train_mask": rows(1, 1, 0)},
        {"x": np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0]], np.float64)},
        {"edge_index": None, "adj_data": rows(1, 1), "adj_indices": rows(1, 1), "adj_indptr": rows(0, 1, 1, 2),
         "adj_shape": rows(3, 3)},
        {"y": None, "labels": rows(0, -1, 1)},
    ],
)  # fmt: skip
def test_arrays_of_other_benchmarks_are_read_the_same(tmp_path, changes):
    plain = load_source(feature_file(tmp_path / "tiny.npz")).graph
    assert load_source(feature_file(tmp_path / "tiny.npz", **changes)).graph == plain


def test_a_feature_graph_without_masks_gets_a_split_by_its_numbers(tmp_path):
    y = np.arange(40) % 2
    path = feature_file(
        tmp_path / "big.npz", train_mask=None, y=y, x=np.ones((40, 2)), x_data=None, edge_index=rows([0], [1])
    )
    graph = load_source(path).graph
    for label in range(2):
        assert np.bincount(graph.split[graph.labels == label], minlength=4).tolist() == [0, 12, 4, 4]
    assert load_source(path).graph == graph


def test_files_that_are_something_else_are_called_so(tmp_path):
    path = tmp_path / "x.npz"
    whole = Path(feature_file(tmp_path / "tiny.npz")).read_bytes()
    for content, message in (
        (b"nothing", "x.npz: is not a feature graph"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "x.npz: is a Git LFS pointer.* git lfs pull"),
        (whole[: len(whole) // 2], "x.npz: is cut off or damaged; copy"),
        (b"\x93NUMPY\x01\x00", "x.npz: is a NumPy array"),
        (b"", "x.npz: is not a feature graph"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            load_source(str(path))
    with pytest.raises(DataError, match="there is no file"):
        load_source(str(tmp_path / "y.npz"))


def test_archives_that_unpack_without_end_are_refused(tmp_path, monkeypatch):
    path = feature_file(tmp_path / "tiny.npz")
    assert load_source(path)
    monkeypatch.setattr(arrays, "MOST_BYTES", 500)
    with pytest.raises(DataError, match="unpacks to more than 500 bytes"):
        load_source(path)


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "train"),
    [("acm", 3025, 13128, 1815), ("dblp", 17716, 52867, 10629), ("planetoid_cora", 2708, 5278, 140)],
)
def test_real_feature_graphs(shared_data, name, nodes, edges, train):
    graph = load_source(str(shared_data / "graphs" / f"{name}.npz")).graph
    assert (graph.num_nodes, len(graph.edges), int((graph.split == 1).sum())) == (nodes, edges, train)


def test_pydocs_by_name():
    assert load_source("pydocs:scipy").graph.name.startswith("pydocs (SciPy ")
    assert load_source("pydocs-brief").graph.name.startswith("pydocs-brief (SciPy ")


@pytest.mark.parametrize("name", ["papers.csv", "papers.sqlite", "papers.graphml", "papers"])
def test_a_table_is_called_a_file_and_the_import_named(tmp_path, name):
    (tmp_path / name).write_text("title,field\nharbours,ports\n")
    with pytest.raises(DataError, match=rf"a file, and a graph is .*`fedtag import \S*{name} --out FOLDER`"):
        load_source(str(tmp_path / name))


def test_unknown_source():
    with pytest.raises(DataError, match="neither a folder nor a file here; give a data folder"):
        load_source("no_such_thing")
    for name, meant in (("pydoc", "'pydocs'"), ("pydocs_brief", "'pydocs-brief'"), ("sora", "'cora'")):
        with pytest.raises(DataError, match=f"did you mean {meant}"):
            load_source(name)
    with pytest.raises(DataError, match="use one of pydocs-brief, pydocs, cora"):
        load_source("no_such_thing")


def test_a_public_set_without_masks_gets_the_usual_split(tmp_path):
    # The layout of PyG's co-purchases, none of which have masks.
    raw = tmp_path / "computers" / "Computers" / "raw"
    raw.mkdir(parents=True)
    n = 40
    ring = csr_matrix((np.ones(n), (np.arange(n), np.roll(np.arange(n), 1))), (n, n))
    x = csr_matrix(np.eye(n, 5, dtype=np.float32))
    parts = {
        f"{name}_{part}": value
        for name, one in (("adj", ring), ("attr", x))
        for part, value in (
            ("data", one.data), ("indices", one.indices), ("indptr", one.indptr), ("shape", one.shape)
        )
    }  # fmt: skip
    np.savez(raw / "amazon_electronics_computers.npz", labels=np.arange(n) % 2, **parts)
    graph = load_source("computers", cache=tmp_path).graph
    assert graph.split_drawn
    assert graph.split.tolist() == drawn_split(graph.node_ids, graph.labels).tolist()
    assert np.bincount(graph.split).tolist() == [0, 24, 8, 8]


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
    graph = load_source("Cora", cache=tmp_path).graph
    assert graph.num_nodes == len(graph.edges) == 2708
    assert np.bincount(graph.split).tolist() == [1068, 140, 500, 1000]
    assert graph.labels.tolist() == labels.argmax(axis=1).tolist()
    assert np.array_equal(graph.features, x.toarray())
