from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.split_column import write_split
from fedtag.common.errors import DataError

CSV = (
    '\ufeffnode_id,text,label\r\n007,"a, ""quoted""\r\nline",x\r\n8,b,y\r\n\r\n9,c,\r\n10,NA,x\r\n11,d,x\r\n'
)


def csv_nodes(folder: Path) -> None:
    (folder / "nodes.csv").write_bytes(CSV.encode())


def json_nodes(folder: Path) -> None:
    # Beyond 64 bits, with a nested further column, and with a number that a float would not keep.
    rows = [
        (2**70, "a", "x", "{}"),
        (1, "b", "y", '{"deep": [1, {"er": "}"}]}'),
        (2, "c", None, "0.10000000000000000001"),
        (3, "d", "x", "1"),
        (4, "e", "x", "2"),
    ]
    lines = [
        f'{{"node_id": {node}, "text": "{text}", "label": {json.dumps(label)}, "more": {more}}} '
        for node, text, label, more in rows
    ]
    (folder / "nodes.jsonl").write_text("\n\n".join(lines))


def parquet_nodes(folder: Path) -> None:
    table = pa.table(
        {
            "node_id": pa.array([1, 2, 3, 4, 5], pa.uint64()),
            "text": ["a", None, "c", "d", "e"],
            "label": pa.array(["x", "y", None, "x", "x"]).dictionary_encode(),
            "when": pa.array([0, 1, 2, 3, 4], pa.timestamp("us")),
        }
    )
    parquet.write_table(table.replace_schema_metadata({"from": "a database"}), folder / "nodes.parquet")


@pytest.fixture(params=[csv_nodes, json_nodes, parquet_nodes])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write: Callable[[Path], None] = request.param
    place = tmp_path / "site"
    place.mkdir()
    write(place)
    (place / "edges.csv").write_text("src,dst\n")
    (place / "meta.json").write_text(json.dumps({"name": "site", "classes": ["x", "y"]}))
    return place


def test_what_was_drawn_is_read_again_and_all_else_is_as_it_was(folder: Path) -> None:
    (nodes,) = folder.glob("nodes.*")
    nodes.chmod(0o640)
    before, content = read_folder(folder).graph, nodes.read_bytes()
    assert before.split_drawn
    assert write_split(folder, before) == nodes
    after = read_folder(folder).graph
    assert not after.split_drawn
    for name in ("node_ids", "texts", "classes"):
        assert getattr(after, name) == getattr(before, name)
    assert after.labels.tolist() == before.labels.tolist()
    assert after.split.tolist() == before.split.tolist()
    assert set(after.split.tolist()) >= {0, 1}
    assert after.extra.keys() == before.extra.keys()
    assert all(after.extra[name].equals(before.extra[name]) for name in before.extra)
    assert nodes.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in folder.iterdir() if one.name.startswith(".")] == []
    if nodes.suffix == ".csv":
        # The very file, with a field more at the end of each record.
        lines = nodes.read_bytes().decode().split("\r\n")
        assert lines[:3] == ["\ufeffnode_id,text,label,split", '007,"a, ""quoted""', 'line",x,train']
    if nodes.suffix == ".jsonl":
        assert b"0.10000000000000000001" in nodes.read_bytes()
    if nodes.suffix == ".parquet":
        schema = parquet.read_schema(nodes)
        assert schema.metadata[b"from"] == b"a database"
        assert schema.field("when").type == pa.timestamp("us")
    assert nodes.read_bytes() != content


def test_a_column_that_is_there_is_not_written_over(folder: Path) -> None:
    graph = read_folder(folder).graph
    (nodes,) = folder.glob("nodes.*")
    write_split(folder, graph)
    content = nodes.read_bytes()
    with pytest.raises(DataError, match=r"nodes\.\w+ has a column split already: change it there"):
        write_split(folder, graph)
    assert nodes.read_bytes() == content


def test_a_text_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node_id,text,label\n" + f"1,{'long ' * 40_000},x\n" + "2,b,y\n")
    (tmp_path / "edges.csv").write_text("src,dst\n1,2\n")
    (tmp_path / "meta.json").write_text(json.dumps({"name": "site", "classes": ["x", "y"]}))
    graph = read_folder(tmp_path, require_training=False).graph
    write_split(tmp_path, graph)
    assert read_folder(tmp_path, require_training=False).graph.split.tolist() == graph.split.tolist()
