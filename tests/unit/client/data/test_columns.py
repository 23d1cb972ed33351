"""The same table in every format and in memory is the same graph; what no rule reads is refused by row."""

from __future__ import annotations

import decimal
import json
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedtag
from fedtag.client.data.folder import read_folder
from fedtag.client.data.splitting import drawn_split
from fedtag.client.forgetting.folder import without
from fedtag.client.site.site import check_name, site_name
from fedtag.common.errors import DataError
from fedtag.graph.importing.importer import import_folder
from fedtag.graph.importing.recipe import Recipe

CLASSES = ["Häfen", "Optik"]
# CSV cannot tell a blank value from a missing one, nor a carriage return from a line's end in every program.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=8)
IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=6, unique=True),
    st.lists(st.integers(2**63, 2**64 - 1), min_size=2, max_size=6, unique=True),
    st.lists(st.integers(-(10**9), 10**9).map(float), min_size=2, max_size=6, unique=True),
    st.lists(WORDS, min_size=2, max_size=6, unique_by=lambda word: unicodedata.normalize("NFC", word)),
)


def arrow(columns):
    """Columns as a table; whole numbers beyond int64 are unsigned ones."""
    large = {
        name: any(isinstance(value, int) and value >= 2**63 for value in column)
        for name, column in columns.items()
    }
    return pa.table(
        {
            name: pa.array(column, pa.uint64()) if large[name] else pa.array(column)
            for name, column in columns.items()
        }
    )


def write(folder, nodes, edges, suffix):
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps({"name": "x", "classes": CLASSES}))
    for name, columns in (("nodes", nodes), ("edges", edges)):
        path = folder / f"{name}{suffix}"
        if suffix == ".parquet":
            parquet.write_table(arrow(columns), path)
        elif suffix == ".csv":
            arrow_csv.write_csv(arrow(columns), path)
        else:
            rows = zip(*columns.values(), strict=True)
            path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    return folder


def said(graph):
    """All of a graph, ids as they are written: CSV cannot say whether 7 is a text."""
    ids = tuple(map(str, graph.node_ids))
    return (
        ids,
        graph.texts,
        graph.labels.tolist(),
        graph.split.tolist(),
        graph.edges.tolist(),
        graph.edge_weights.tolist(),
    )


@settings(deadline=None, max_examples=25)
@given(ids=IDS, data=st.data())
def test_a_table_is_the_same_graph_in_every_format(ids, data):
    count = len(ids)
    labels = data.draw(st.lists(st.sampled_from([*CLASSES, None]), min_size=count, max_size=count))
    parts = data.draw(
        st.lists(st.sampled_from(["train", "val", "test", None]), min_size=count, max_size=count)
    )
    ends = st.lists(st.sampled_from(ids), min_size=3, max_size=3)
    weights = data.draw(st.lists(st.floats(0, 2.0**60, width=32), min_size=3, max_size=3))
    nodes = {
        "node_id": ids,
        "text": data.draw(st.lists(st.one_of(st.none(), WORDS), min_size=count, max_size=count)),
        "label": labels,
        "split": [part if label else None for part, label in zip(parts, labels, strict=True)],
    }
    edges = {"src": data.draw(ends), "dst": data.draw(ends), "weight": weights}
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        read = [
            said(read_folder(write(place / kind[1:], nodes, edges, kind), require_training=False).graph)
            for kind in (".parquet", ".csv", ".jsonl")
        ]
        kind = data.draw(st.sampled_from((".parquet", ".jsonl")))
        tables = {name: str(place / kind[1:] / f"{name}{kind}") for name in ("nodes", "edges")}
        columns = {
            "id": "node_id",
            "label": "label",
            "split": "split",
            "src": "src",
            "dst": "dst",
            "weight": "weight",
        }
        recipe = Recipe.of(**tables, **columns, text=["text"], classes=CLASSES)
        made = import_folder(recipe, place / "imported").folder
        read.append(said(read_folder(made, require_training=False).graph))
    held = fedtag.Graph.from_pandas(
        pd.DataFrame(nodes), pd.DataFrame(edges), id="node_id", text="text", label="label", split="split",
        src="src", dst="dst", weight="weight", classes=CLASSES,
    )  # fmt: skip
    assert [*read[1:], said(held.text_graph)] == [read[0]] * 4
    assert read[0][0] == tuple(str(int(one)) if isinstance(one, float) else str(one) for one in ids)
    assert read[0][1] == tuple("" if not text or text.isspace() else text for text in nodes["text"])
    assert read[0][2] == [-1 if label is None else CLASSES.index(label) for label in labels]


@pytest.mark.parametrize(
    ("ids", "read"),
    [
        (pa.array([1, 2], pa.uint8()), (1, 2)),
        (pa.array([1.0, 2.0], pa.float32()), (1, 2)),
        (pa.array([decimal.Decimal(1), decimal.Decimal(2)], pa.decimal128(20, 0)), (1, 2)),
        (pa.array([2**63, 2**64 - 1], pa.uint64()), (str(2**63), str(2**64 - 1))),
        (pa.array(["007", "7"]), ("007", "7")),
        (pa.array([decimal.Decimal("1.5"), decimal.Decimal(2)]), "not a whole number or string in row 1"),
        (pa.array([2.0**24, 2.0], pa.float32()), "not a whole number or string in row 1"),
        (pa.array([2.0**53, 2.0]), "not a whole number or string in row 1"),
        (pa.array([True, False]), "node_id is true or false in rows 1, 2"),
        (pa.array([[1], None]), "node_id is a list in row 1"),
        (pa.array([{"a": 1}, None]), "node_id is an object in row 1"),
        (pa.array([0, 1], pa.date32()), "node_id has the type date32"),
    ],
)
def test_ids_of_any_type(tmp_path, ids, read):
    nodes = {"node_id": ids, "text": ["", "b"], "label": ["Optik", None], "split": ["train", None]}
    folder = write(tmp_path / "x", nodes, {"src": ids, "dst": ids}, ".parquet")
    if isinstance(read, tuple):
        assert read_folder(folder).graph.node_ids == read
        return
    with pytest.raises(DataError, match=f"nodes.parquet: .*{read}"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("value", "what"), [([1], "a list"), ({"a": 1}, "an object"), (True, "true or false")]
)
def test_cells_that_hold_more_than_a_value_are_refused_by_row(tmp_path, value, what):
    nodes = {"node_id": [1, 2], "text": ["a", value], "label": ["Optik", None], "split": ["train", None]}
    with pytest.raises(DataError, match=f"nodes.jsonl: text is {what} in row 2; write one string"):
        read_folder(write(tmp_path / "x", nodes, {"src": [1], "dst": [2]}, ".jsonl"))
    table = pd.DataFrame({**nodes, "text": pd.Series(nodes["text"], dtype=object)})
    graph = fedtag.Graph.from_pandas(table, pd.DataFrame({"a": [1], "b": [2]}), id="node_id", text="text")
    assert f"text is {what}" in graph.problems()["what"].iloc[0]


def test_what_looks_alike_is_alike(tmp_path):
    apart = [unicodedata.normalize(form, "Häfen") for form in ("NFC", "NFD")]
    nodes = {"node_id": ["é", "b"], "text": ["x", "y"], "label": [apart[1], None], "split": ["train", None]}
    edges = {"src": [unicodedata.normalize("NFD", "é")], "dst": ["b"]}
    folder = write(tmp_path / "x", nodes, edges, ".csv")
    assert read_folder(folder).graph.edges.tolist() == [[0, 1]]
    (folder / "meta.json").write_text(json.dumps({"name": "x", "classes": apart}))
    with pytest.raises(DataError, match="two classes look alike and differ in their Unicode normal form"):
        read_folder(folder)
    twins = write(tmp_path / "y", {**nodes, "node_id": apart}, {"src": [], "dst": []}, ".jsonl")
    with pytest.raises(DataError, match=r"looks like an id before .* in row 2"):
        read_folder(twins)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nodes.csv", b"node_id;text;label\n1;a;0\n", "nodes.csv: is separated by semicolons"),
        ("nodes.csv", b"node_id|text|label\n1|a, b|0\n", "nodes.csv: is separated by vertical bars"),
        ("nodes.csv", b"sep=;\nnode_id;text;label\n", "nodes.csv: the first line is 'sep=;'; remove it"),
        ("nodes.csv", b"# made\nnode_id,text,label\n", r"nodes.csv: the first line is a comment"),
        ("nodes.csv", b"\x1f\x8b\x08", r"nodes.csv: is compressed \(gzip\)"),
        ("nodes.csv", b"SQLite format 3\x00", "nodes.csv: is an SQLite database"),
        ("nodes.csv", b"<!DOCTYPE html><p>log in", "nodes.csv: is a web page"),
        (
            "nodes.parquet",
            b"version https://git-lfs.github.com/spec/v1",
            "is a Git LFS pointer.*git lfs pull",
        ),
        ("nodes.csv.gz", b"\x1f\x8b\x08", "nodes.csv.gz is not read; it is compressed"),
        (
            "nodes.json",
            b"[]",
            "nodes.json is not read; write nodes.parquet or nodes.csv or nodes.jsonl, one object",
        ),
        ("Nodes.CSV", b"node_id,text,label\n", "Nodes.CSV is not read"),
        ("features.npz", b"PK\x03\x04", "features.npz is not read; save one float32 array as features.npy"),
    ],
)
def test_files_in_another_form_are_named(tmp_path, name, content, message):
    (tmp_path / "meta.json").write_text(json.dumps({"name": "x", "classes": CLASSES}))
    (tmp_path / "edges.csv").write_text("src,dst\n")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_folder(tmp_path)


def test_weights_are_refused_where_their_sums_leave_float32(tmp_path):
    nodes = {"node_id": [1, 2, 3], "text": ["a"] * 3, "label": ["Optik"] * 3, "split": ["train"] * 3}
    edges = {"src": [1, 1], "dst": [2, 3], "weight": [9e29, 9e28]}
    assert read_folder(write(tmp_path / "x", nodes, edges, ".csv")).graph.edge_weights.max() > 8e29
    heavy = write(tmp_path / "y", nodes, {**edges, "weight": [9e29, 9e29]}, ".csv")
    with pytest.raises(
        DataError, match=r"edges.csv: the weights at a node sum to more than 1e[+]30 in rows 1"
    ):
        read_folder(heavy)


def test_a_split_goes_by_the_ids_alone():
    ids = [f"paper-{number}" for number in range(50)]
    labels = np.arange(50) % 2
    split = drawn_split(ids, labels)
    assert [np.bincount(split[labels == one]).tolist() for one in range(2)] == [[0, 15, 5, 5]] * 2
    order = np.random.default_rng(0).permutation(50)
    assert drawn_split([ids[row] for row in order], labels[order]).tolist() == split[order].tolist()
    assert drawn_split(ids, labels, seed=1).tolist() != split.tolist()
    one, other = (
        drawn_split([unicodedata.normalize(form, f"Prüfung {row}") for row in range(50)], labels).tolist()
        for form in ("NFC", "NFD")
    )
    assert one == other
    grown = drawn_split(
        [*ids, *map(str, range(10))], np.r_[labels, np.arange(10) % 2], 0, dict(zip(ids, split, strict=True))
    )
    assert grown[:50].tolist() == split.tolist(), "whoever has a split keeps it"
    assert np.bincount(grown).tolist() == [0, 36, 12, 12]


def test_a_node_is_forgotten_as_it_is_called(tmp_path):
    nodes = {
        "node_id": [1.0, 2.0, 3.0],
        "text": ["a", "b", "c"],
        "label": ["Optik"] * 3,
        "split": ["train"] * 3,
    }
    edges = {"src": [1.0, 2.0], "dst": [2.0, 3.0]}
    for suffix in (".csv", ".jsonl", ".parquet"):
        folder = tmp_path / suffix[1:]
        write(folder, nodes, edges, suffix)
        if suffix == ".csv":
            for name in ("nodes.csv", "edges.csv"):
                columns = nodes if name == "nodes.csv" else edges
                pd.DataFrame(columns).to_csv(folder / name, index=False)
            assert "2.0" in (folder / "nodes.csv").read_text()
        taken = without(folder, ["2"])
        assert (taken.rows, taken.edges) == ((1,), 2)
        for name, content in taken.files.items():
            (folder / name).write_bytes(content)
        assert read_folder(folder).graph.node_ids == (1, 3)


@pytest.mark.parametrize(
    "name", ["St. Mary's Hospital", "AT&T", "(A)", "病院", "x" * 80, "../..", "", "a\nb"]
)
def test_every_institution_has_a_name_for_its_site(name):
    check_name(site_name(name))
    assert "/" not in site_name(name)
