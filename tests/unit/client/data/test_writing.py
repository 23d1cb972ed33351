from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import CrossEdges, TextGraph, canonical_edges
from fedtag.client.data.values import normal
from fedtag.client.data.writing import write_folder
from fedtag.common.errors import DataError

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = words.filter(lambda word: word.strip() != "")


@st.composite
def graphs(draw):
    kind = draw(st.sampled_from(["int", "str"]))
    one_id = st.integers(-(2**63), 2**63 - 1) if kind == "int" else words.filter(bool)
    # What differs in its normal form only, and weights whose sums leave float32, are refused.
    ids = draw(st.lists(one_id, min_size=1, max_size=6, unique_by=lambda one: normal(str(one))))
    n = len(ids)
    classes = draw(st.lists(names, min_size=1, max_size=4, unique_by=normal))
    labels = np.array(draw(st.lists(st.integers(-1, len(classes) - 1), min_size=n, max_size=n)), np.int64)
    split = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.int8)
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=10))
    finite = st.floats(0, 2.0**95, width=32).map(abs)
    weights = draw(st.lists(finite, min_size=len(pairs), max_size=len(pairs)))
    directed = draw(st.booleans())
    edges, edge_weights, _, _ = canonical_edges(
        np.array(pairs, np.int64).reshape(-1, 2), np.array(weights, np.float32), directed
    )
    features = None
    if draw(st.booleans()):
        features = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n, 3)).astype(np.float32)
    cross = draw(st.lists(st.tuples(ends, words.filter(bool), words.filter(bool)), max_size=4, unique=True))
    return TextGraph(
        name=draw(names),
        node_ids=tuple(ids),
        texts=tuple("" if text.isspace() else text for text in draw(st.lists(words, min_size=n, max_size=n))),
        labels=labels,
        split=np.where(labels >= 0, split, 0).astype(np.int8),
        edges=edges,
        edge_weights=edge_weights,
        classes=tuple(classes),
        directed=directed,
        features=features,
        cross_edges=CrossEdges(
            np.array([edge[0] for edge in cross], np.int64),
            tuple(edge[1] for edge in cross),
            tuple(edge[2] for edge in cross),
            np.ones(len(cross), np.float32),
        ),
        extra={"note": pa.array(draw(st.lists(words, min_size=n, max_size=n)), pa.large_string())},
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs())
def test_what_is_written_is_read_back(tmp_path, graph):
    write_folder(graph, tmp_path / "site")
    reading = read_folder(tmp_path / "site", require_training=False)
    assert reading.graph == graph
    assert (reading.repairs.self_loops, reading.repairs.duplicate_edges) == (0, 0)
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_equality_sees_every_field(make_graph):
    graph = make_graph(blocks=2, size=4)
    changed = [
        replace(graph, name="x"),
        replace(graph, labels=graph.labels - 1),
        replace(graph, features=np.zeros((8, 1), np.float32)),
        replace(graph, extra={"a": pa.array(range(8))}),
        replace(graph, edge_weights=graph.edge_weights * 2),
        replace(graph, cross_edges=CrossEdges(np.array([0]), (1,), ("p",), np.ones(1, np.float32))),
    ]
    assert graph == replace(graph, labels=graph.labels.copy())
    assert all(graph != other for other in changed)


def test_the_same_graph_gives_the_same_bytes(make_graph, tmp_path):
    graph = replace(make_graph(), features=np.ones((120, 2), np.float32))
    first, second = write_folder(graph, tmp_path / "a"), write_folder(graph, tmp_path / "b")
    names = sorted(file.name for file in first.iterdir())
    assert names == ["edges.parquet", "features.npy", "meta.json", "nodes.parquet"]
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_replaces_a_data_folder_but_nothing_else(make_graph, tmp_path):
    first, second = make_graph(blocks=1), make_graph(blocks=2)
    write_folder(first, tmp_path / "site")
    write_folder(second, tmp_path / "site")
    assert read_folder(tmp_path / "site", require_training=False).graph == second
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="is not a data folder"):
        write_folder(first, tmp_path / "home")
    assert (tmp_path / "home" / "thesis.txt").read_text() == "mine"


def test_foreign_ids_of_two_kinds_become_strings(make_graph, tmp_path):
    cross = CrossEdges(np.array([0, 1]), (7, "x"), ("p", "q"), np.ones(2, np.float32))
    write_folder(replace(make_graph(), cross_edges=cross), tmp_path / "site")
    assert read_folder(tmp_path / "site", require_training=False).graph.cross_edges.foreign == ("7", "x")
