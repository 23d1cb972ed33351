"""Files as careless or hostile people make them: read as they are meant, or refused in words about them."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import networkx as nx
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TextGraph
from fedtag.errors import ConfigError, DataError
from fedtag.graph.importing import compression
from fedtag.graph.importing.importer import Imported, import_folder
from fedtag.graph.importing.recipe import RECIPE, Recipe, recipe_of

ROWS = [(f"p{row}", f"We look at harbours in part {row}", ("ports", "optics")[row % 2]) for row in range(12)]
COLUMNS = ("paper", "abstract", "field")
LINKS = [(f"p{row}", f"p{(row * 5 + 1) % 12}") for row in range(12)]
PAIRS = {frozenset(pair) for pair in LINKS}


def written(columns: Sequence[str], rows: Sequence[Sequence[object]], end: str = "\n") -> str:
    return "".join(",".join(map(str, row)) + end for row in (columns, *rows))


NODES, EDGES = written(COLUMNS, ROWS), written(("citing", "cited"), LINKS)
OBJECTS = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
ARROW = {name: [row[place] for row in ROWS] for place, name in enumerate(COLUMNS)}


def imported(
    folder: Path, nodes: str | bytes, edges: str | None = EDGES, name: str = "n.csv", **options: object
) -> Imported:
    (folder / name).write_bytes(nodes if isinstance(nodes, bytes) else nodes.encode())
    if edges is not None:
        (folder / "e.csv").write_text(edges, encoding="utf-8", newline="")
        options["edges"] = str(folder / "e.csv")
    return import_folder(Recipe.of(nodes=str(folder / name), **options), folder / "out")


def read(found: Imported) -> TextGraph:
    return read_folder(found.folder, require_training=False).graph


def pairs(graph: TextGraph) -> set[frozenset[object]]:
    return {frozenset(graph.node_ids[row] for row in pair) for pair in graph.edges}


def check(graph: TextGraph) -> None:
    named = [graph.classes[label] for label in graph.labels]
    assert list(zip(graph.node_ids, graph.texts, named, strict=True)) == ROWS
    assert pairs(graph) == PAIRS


@pytest.mark.parametrize("ends", [("\r", "\n"), ("\r", "\r\n"), ("\r\n", "\n"), ("\r", "\r")])
def test_lines_may_end_in_several_ways(ends: tuple[str, str], tmp_path: Path) -> None:
    first, second = ends
    found = imported(tmp_path, written(COLUMNS, ROWS[:5], first) + written(ROWS[5], ROWS[6:], second))
    check(read(found))
    assert ("line ends of several kinds" in found.account.of("read")[0]) == (first != second)


def test_a_quoted_line_end_at_the_end_of_a_block(tmp_path: Path) -> None:
    rows = [(f"q{row}", f'"part\n{row} of it"', "ab"[row % 2]) for row in range(9000)]
    graph = read(imported(tmp_path, written(COLUMNS, rows), written("ab", [("q4095", "q4096")])))
    assert graph.texts == tuple(f"part\n{row} of it" for row in range(9000))
    assert pairs(graph) == {frozenset(("q4095", "q4096"))}


def bad_deflate(content: bytes) -> bytes:
    packed = bytearray(gzip.compress(content * 50))
    packed[60:62] = bytes(255 - one for one in packed[60:62])
    return bytes(packed)


def archive(members: Mapping[str, str], flag: int = 0, method: int | None = None) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    made = bytearray(held.getvalue())
    central = made.find(b"PK\x01\x02")
    if members:
        made[6] |= flag
        made[central + 8] |= flag
    if method is not None:
        made[8] = made[central + 10] = method
    return bytes(made)


def feathered() -> bytes:
    sink = pa.BufferOutputStream()
    feather.write_feather(pa.table(ARROW), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (bad_deflate(NODES.encode()), "is cut off or damaged"),
        (archive({"n.csv": NODES}, flag=1), "cannot be unpacked .*password.*unpack it"),
        (archive({"n.csv": NODES}, method=99), "cannot be unpacked .*not supported.*unpack it"),
        (archive({}), "is no text, and of no form that is read"),
        (feathered(), "is no text, and of no form that is read"),
        (pickle.dumps({"a": [1, 2, 3] * 50}), "is no text, and of no form that is read"),
        (b"\xef\xbb\xbf" + NODES.replace("harbours", "Häfen").encode("latin-1"), "begins as UTF-8 and is not"),
        (NODES.splitlines(keepends=True)[0].encode(), "there is no row"),
        (b"[]", "there is no row"),
        (json.dumps([{**one, "abstract": "\ud800"} for one in OBJECTS]).encode(), "element 1 .* is not valid UTF-8"),
        (NODES.encode() + b"p12,\"" + b"x y " * 600_000 + b"\",ports\n", "line 14 is longer than 2 MB"),
        (NODES.encode() + b"p3,again,ports\n,no,ports\n", "paper is empty in line 15;.*\n.*repeats an id in line 14"),
        (NODES.replace("p1,", "Ha\u0308,").replace("p2,", "H\u00e4,").encode(), "paper looks like an id .* in line 4"),
        (json.dumps([{**one, "abstract": [1]} for one in OBJECTS]).encode(), "abstract is a list in rows 1, 2"),
        (json.dumps([{**OBJECTS[0], "field": {}}, *OBJECTS[1:]]).encode(), "field is an object in row 1;"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_of_it(content: bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"n.csv: {what}") as error:
        imported(tmp_path, content)
    assert error.value.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.csv", "n.csv"]


def test_a_zip_file_of_a_mac_holds_one_table(tmp_path: Path) -> None:
    check(read(imported(tmp_path, archive({"n.csv": NODES, "__MACOSX/._n.csv": "icon"}), name="n.zip")))


def test_a_small_file_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "SMALL", 2**20)
    packed = gzip.compress(NODES.encode() + b"\n" * 2**23)
    with pytest.raises(DataError, match=r"n.csv: is more than 200 times as large unpacked"):
        imported(tmp_path, packed)
    monkeypatch.setattr(compression, "SMALL", 2**28)
    check(read(imported(tmp_path, packed)))


@pytest.mark.parametrize("encoding", ["rot13", "base64", "undefined", "utf\0", "klingon"])
def test_an_encoding_that_is_none(encoding: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"n.csv: encoding= is .*, which is none"):
        imported(tmp_path, NODES, encoding=encoding)


@pytest.mark.parametrize(
    "options",
    [
        {"text": ["abstract", ""]},
        {"text": ["abstract"] * 2},
        {"separator": "\n"},
        {"separator": '"'},
        {"separator": "-----"},
    ],
)
def test_options_that_mean_nothing(options: Mapping[str, object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"An import cannot be done so \\({next(iter(options))}"):
        imported(tmp_path, NODES, **options)


def test_columns_of_edges_that_cannot_be_ends(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"e.csv: src= and dst= are both citing"):
        imported(tmp_path, NODES, src="citing", dst="citing")
    with pytest.raises(DataError, match=r"weight= names a column of edges, of which no table is given"):
        imported(tmp_path, NODES, None, weight="strength", edges_from="field")


def test_weights_that_are_no_numbers_are_refused_and_what_is_not_used_is_said(tmp_path: Path) -> None:
    rows = [("p1", "p2", "nan", "x"), ("p2", "p3", "1", "y"), ("p3", "p4", "2.5", "z")]
    with pytest.raises(DataError, match=r"e.csv: weight is not a finite number of at least 0 in line 2"):
        imported(tmp_path, NODES, written(("a", "b", "weight", "kind"), rows))
    found = imported(tmp_path, NODES, written(("a", "b", "weight", "kind"), rows[1:]))
    assert sorted(read(found).edge_weights.tolist()) == [1, 2.5]
    assert "not used of the edges: kind" in found.account.of("read")


def test_columns_of_other_types_are_left_out(tmp_path: Path) -> None:
    others = {
        "nested": [{"x": 1}] * 12,
        "listed": [[1]] * 12,
        "blank": pa.nulls(12, pa.struct({"x": pa.int64()})),
    }
    parquet.write_table(pa.table({**ARROW, **others, "s.x": [True] * 12}), tmp_path / "n.parquet")
    check(read(imported(tmp_path, (tmp_path / "n.parquet").read_bytes(), name="n.parquet")))


def test_a_damaged_page_of_parquet(tmp_path: Path) -> None:
    parquet.write_table(pa.table(ARROW), tmp_path / "n.parquet")
    content = (tmp_path / "n.parquet").read_bytes()
    with pytest.raises(DataError, match=r"n.parquet: is not a readable Parquet file"):
        imported(tmp_path, content[:10] + b"\xff" * 40 + content[50:], name="n.parquet")


def database(path: Path, *more: str) -> str:
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, columns, rows in (("papers", COLUMNS, ROWS), ('we#ird "t', ("a", "b"), LINKS)):
            quoted = name.replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" ({", ".join(columns)})')
            connection.executemany(f'INSERT INTO "{quoted}" VALUES ({", ".join("?" * len(columns))})', rows)
        for statement in more:
            connection.execute(statement)
    return str(path)


def test_tables_and_views_of_a_database(tmp_path: Path) -> None:
    path = database(
        tmp_path / "n#1.db", "CREATE VIEW half AS SELECT * FROM papers", "CREATE VIEW gone AS SELECT * FROM absent"
    )  # fmt: skip
    recipe, _ = recipe_of(f"{path}#half", {"edges": f'{path}#we#ird "t'})
    check(read(import_folder(recipe, tmp_path / "out")))
    check(read(import_folder(*recipe_of(str(tmp_path / "out" / RECIPE), {}))))
    with pytest.raises(DataError, match=r"there is no table gone; use one of half, papers, we#ird"):
        import_folder(recipe_of(f"{path}#gone", {"edges_from": "field"})[0], tmp_path / "none")


def test_a_database_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = database(tmp_path / "n.db")
    connect = sqlite3.connect
    with closing(connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, timeout=0))
        with pytest.raises(DataError, match=r"n.db: .*database is locked.*close what writes to it"):
            import_folder(Recipe.of(nodes=path, edges_from="field"), tmp_path / "out")


def network(attributes: bool) -> nx.DiGraph:
    graph = nx.DiGraph(LINKS)
    for paper, abstract, field in ROWS:
        graph.add_node(paper, abstract=abstract, field=field, **({"id": f"x{paper}"} if attributes else {}))
    for ends in graph.edges:
        graph.edges[ends].update({"source": "survey", "target": 1} if attributes else {})
    return graph


def test_attributes_that_are_called_as_ids_and_ends_are_none(tmp_path: Path) -> None:
    nx.write_graphml(network(attributes=True), tmp_path / "n.graphml")
    found = import_folder(Recipe.of(nodes=str(tmp_path / "n.graphml")), tmp_path / "out")
    assert pairs(read(found)) == PAIRS
    assert "id (attribute)" in found.account.of("read")[0]


def wide(text: str) -> bytes:
    return text.replace("encoding='utf-8'", "encoding='utf-16'").encode("utf-16")


def test_xml_in_utf_16_and_its_entities(tmp_path: Path) -> None:
    path = tmp_path / "n.graphml"
    nx.write_graphml(network(attributes=False), path)
    path.write_bytes(wide(path.read_text(encoding="utf-8")))
    assert pairs(read(import_folder(Recipe.of(nodes=str(path)), tmp_path / "out"))) == PAIRS
    path.write_bytes(wide('<!DOCTYPE g [<!ENTITY a "x">]><graphml>&a;</graphml>'))
    with pytest.raises(DataError, match=r"n.graphml: declares a document type or entities"):
        import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")


def test_labels_of_gexf_are_names_of_nodes_and_no_classes(tmp_path: Path) -> None:
    nx.write_gexf(network(attributes=False), tmp_path / "n.gexf")
    assert read(import_folder(Recipe.of(nodes=str(tmp_path / "n.gexf")), tmp_path / "out")).classes == (
        "optics",
        "ports",
    )


def test_gml_beyond_ascii_with_an_edge_that_stands_twice(tmp_path: Path) -> None:
    nodes = "".join(
        f'node [ id {n} label "{ROWS[n][0]}" abstract "Häfen {n} am See" field "{ROWS[n][2]}" ]\n'
        for n in range(12)
    )
    links = [(int(a[1:]), int(b[1:])) for a, b in (*LINKS, LINKS[0])]
    edges = "".join(f"edge [ source {a} target {b} ]\n" for a, b in links)
    graph = read(imported(tmp_path, f"graph [\n{nodes}{edges}]\n", None, "n.gml"))
    assert graph.texts[3] == "Häfen 3 am See"
    assert pairs(graph) == PAIRS


def pajek(*names: str) -> str:
    vertices = "".join(f'{place} "{name}" 0.1 0.2 ellipse\n' for place, name in enumerate(names, start=1))
    return f"*Vertices {len(names)}\n{vertices}*Edges\n1 2 2.5\n2 3\n"


def test_pajek_whose_names_are_ids_and_texts(tmp_path: Path) -> None:
    content = pajek("Über Häfen", "On tides", "On light").encode("latin-1")
    found = imported(tmp_path, content, None, "n.net", text=["id"])
    columns = parquet.read_table(found.folder / "nodes.parquet").to_pydict()
    assert columns["node_id"] == columns["text"] == ["Über Häfen", "On tides", "On light"]
    edges = parquet.read_table(found.folder / "edges.parquet").to_pydict()
    assert list(zip(*(edges[name] for name in ("src", "dst", "weight")), strict=True)) == [
        ("Über Häfen", "On tides", 2.5),
        ("On tides", "On light", 1.0),
    ]
    for content, what in (
        (pajek("A", "A", "B"), "3 vertices, 2 names"),
        (pajek("A", "B", "C").replace("Edges", "Edgeslist"), "lists of edges"),
    ):
        with pytest.raises(DataError, match=f"n.net: is not readable as Pajek .*{what}"):
            imported(tmp_path, content, None, "n.net", text=["id"])


def test_what_others_put_into_the_folder_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = imported(tmp_path, NODES).folder
    (out / "notes.md").write_text("mine")
    with pytest.raises(DataError, match=r"out holds notes.md, which no import wrote; move it"):
        imported(tmp_path, NODES)
    assert (out / "notes.md").read_text() == "mine"
    (out / "notes.md").unlink()
    with monkeypatch.context() as patch:
        patch.chdir(out)
        with pytest.raises(DataError, match="is the folder in which you are"):
            imported(tmp_path, NODES)
    check(read(imported(tmp_path, NODES)))


def test_what_a_killed_import_left_is_named(tmp_path: Path) -> None:
    left = tmp_path / ".out-0123456789abcdef"
    left.mkdir()
    (tmp_path / ".other-0123456789abcdef").mkdir()
    assert [one for one in imported(tmp_path, NODES).account.of("read") if "was stopped" in one] == [
        f"not {left}, which an import that was stopped left: remove it, unless one is at work"
    ]
