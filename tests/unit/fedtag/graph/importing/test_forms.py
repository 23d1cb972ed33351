"""The same papers in every form are the same graph; what is no table is called what it is. Nothing needs a network."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import socket
import zipfile
from pathlib import Path

import duckdb
import networkx as nx
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.errors import DataError
from fedtag.graph.importing.delimited import OFFLINE
from fedtag.graph.importing.importer import import_folder
from fedtag.graph.importing.recipe import Recipe
from tests.unit.fedtag.graph.importing import written

NAMED = {"id": "paper", "text": ["abstract"], "label": "field"}


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No connection can be made, and nothing lies in the home folder that a download could have left there."""

    def refuse(*_: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def check(folder: Path) -> None:
    graph = read_folder(folder).graph
    texts = dict(zip(graph.node_ids, graph.texts, strict=True))
    assert texts == {paper: text for paper, text, _ in written.PAPERS}
    named = [None if code < 0 else graph.classes[code] for code in graph.labels]
    assert dict(zip(graph.node_ids, named, strict=True)) == {
        paper: field for paper, _, field in written.PAPERS
    }
    pairs = {frozenset(graph.node_ids[row] for row in pair) for pair in graph.edges}
    assert pairs == {frozenset(pair) for pair in written.CITATIONS if pair[0] != pair[1]}


@pytest.mark.parametrize("form", written.TABLES)
def test_a_table_is_the_same_graph_in_every_form(form: str, tmp_path: Path) -> None:
    name, write = written.TABLES[form]
    nodes, edges = tmp_path / name, tmp_path / f"edges-{name}"
    write(nodes, written.COLUMNS, written.PAPERS)
    write(edges, written.ENDS, written.CITATIONS)
    made = import_folder(Recipe.of(nodes=str(nodes), edges=str(edges)), tmp_path / "out")
    check(made.folder)
    assert made.account.of("read")[0].startswith(f"{name}: ")
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("form", written.NETWORKS)
def test_a_file_of_a_graph_holds_nodes_and_edges(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"papers.{form}"
    written.NETWORKS[form](written.network(), path)
    check(import_folder(Recipe.of(nodes=str(path), **(NAMED | {"id": "id"})), tmp_path / "out").folder)


def test_a_graph_in_json(tmp_path: Path) -> None:
    path = tmp_path / "papers.json"
    path.write_text(json.dumps(nx.node_link_data(written.network(), edges="links")), encoding="utf-8")
    check(import_folder(Recipe.of(nodes=str(path)), tmp_path / "out").folder)


def test_extensions_are_never_downloaded() -> None:
    with duckdb.connect(config=OFFLINE) as connection:
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions"):
            assert connection.sql(f"SELECT current_setting('{setting}')").fetchall() == [(False,)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a Git LFS pointer.*git lfs pull"),
        (b"", "the file is empty"),
        (gzip.compress(b"paper,abstract\n" * 1000, mtime=0)[:-20], "is cut off or damaged"),
        (b"%PDF-1.4", "is a PDF document"),
        (b"paper,abstract,field\np1,a,b\np2,a,b,c\np3\n", "number of fields is not 3 in lines 3, 4"),
        (b'paper,abstract,field\np1,a,b\np2,"a,b\np3,c,d\n', "a quote is opened and never closed"),
        (b"paper,abstract,paper\np1,a,b\n", "column paper appears more than once"),
        (b'{"paper": "p1", "abstract": ["a"], "field": "x"}\n', "abstract is a list in line 1"),
    ],
)
def test_what_is_no_table_is_called_what_it_is(content: bytes, what: str, tmp_path: Path) -> None:
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_bytes(content)
    edges.write_text("a,b\np1,p1\n")
    with pytest.raises(DataError, match=f"n.csv: .*{what}"):
        import_folder(Recipe.of(nodes=str(nodes), edges=str(edges), **NAMED), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "n.csv"]


def zipped(name: str, content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(name, content)
    return held.getvalue()


def test_what_was_packed_more_than_once_is_unpacked(tmp_path: Path) -> None:
    """As a browser leaves what a server packs on its way."""
    plain = b"paper,abstract,field\np1,a,x\np2,b,y\n"
    edges = tmp_path / "e.csv"
    edges.write_text("a,b\np1,p2\n")
    packed = {
        "twice.csv.gz": gzip.compress(gzip.compress(plain)),
        "in.csv.zip": zipped("nodes.csv.gz", gzip.compress(plain)),
        "bz.csv.gz": gzip.compress(bz2.compress(plain)),
    }
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
        made = import_folder(
            Recipe.of(nodes=str(tmp_path / name), edges=str(edges), **NAMED), tmp_path / "out"
        )
        graph = read_folder(made.folder, require_training=False).graph
        assert (graph.node_ids, graph.texts) == (("p1", "p2"), ("a", "b"))
    deep = plain
    for _ in range(4):
        deep = gzip.compress(deep)
    (tmp_path / "deep.csv").write_bytes(deep)
    with pytest.raises(DataError, match=r"deep\.csv: is compressed more than 3 times; unpack it yourself"):
        import_folder(Recipe.of(nodes=str(tmp_path / "deep.csv"), edges=str(edges), **NAMED), tmp_path / "no")


def test_entities_of_xml_do_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.graphml"
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    path.write_text(f'<?xml version="1.0"?><!DOCTYPE g [<!ENTITY e0 "x">{levels}]><graphml>&e9;</graphml>')
    with pytest.raises(DataError, match=r"bomb.graphml: declares a document type or entities"):
        import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")
