from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TEST, TRAIN, VAL, CrossEdges
from fedtag.common.errors import DataError

META = {"name": "clinic", "classes": ["ill", "well"], "source": "anything else"}
NODES = "node_id,text,label,split\n1,one,ill,train\n2,two,well,val\n3,three,0,test\n4,,,\n"
EDGES = "src,dst\n1,2\n2,3\n"


@pytest.fixture
def folder(tmp_path):
    def write(nodes=NODES, edges=EDGES, meta=META, **files):
        contents = {"nodes.csv": nodes, "edges.csv": edges, "meta.json": meta}
        contents |= {name.replace("__", "."): value for name, value in files.items()}
        for name, content in contents.items():
            if content is None:
                continue
            if isinstance(content, dict):
                content = json.dumps(content)
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write


def problems_of(folder, **options):
    with pytest.raises(DataError) as caught:
        read_folder(folder, **options)
    return caught.value.problems


def test_a_good_folder(folder):
    reading = read_folder(folder(edges="src,dst\n1,2\n2,1\n3,3\n2,3\n"))
    graph = reading.graph
    assert graph.node_ids == (1, 2, 3, 4)
    assert graph.texts == ("one", "two", "three", "")
    assert graph.labels.tolist() == [0, 1, 0, -1]
    assert graph.split.tolist() == [TRAIN, VAL, TEST, 0]
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weights.tolist() == [1, 1]
    assert (graph.name, graph.classes, graph.directed) == ("clinic", ("ill", "well"), False)
    assert vars(reading.repairs) == {
        "self_loops": 1, "duplicate_edges": 1, "empty_texts": 1, "isolated_nodes": 1
    }  # fmt: skip


def test_every_fault_is_in_one_report(folder):
    nodes = (
        b"node_id,text,label,split\n"
        b"a,caf\xe9,ill,train\n"  # 1 Latin-1
        b"a,x,well,val\n"  # 2 repeated id
        b",x,well,val\n"  # 3 no id
        b"b,x,healthy,test\n"  # 4 not a class
        b"c,x,ill,validation\n"  # 5 not a split
        b"d,x\n"  # 6 too few fields
        b"e,x,,test\n"  # 7 split without label
    )
    edges = "src,dst,weight\na,zzz,1\na,b,-1\na,b,nan\na,b,many\n,b,1\n"
    cross = "src,dst,peer\na,x9,other\nqq,x9,other\nb,x9,\n"
    path = folder(
        nodes=nodes,
        edges=edges,
        meta='{"name": "", "classes": ["ill", "well"], "directed": 1}',
        cross_edges__csv=cross,
    )
    np.save(path / "features.npy", np.array([[1.0], [np.nan], [np.inf], [0], [0], [0]], np.float32))
    report = "\n".join(problems_of(path))
    for expected in (
        "meta.json: name is ''",
        "meta.json: directed is 1",
        "nodes.csv: the number of fields is not 4 in row 6 ('2 fields')",
        "nodes.csv: text is not valid UTF-8 in row 1; save the file in UTF-8",
        "nodes.csv: node_id is empty in row 3;",
        "nodes.csv: node_id repeats an id in row 2 ('a')",
        "nodes.csv: label is not a class in row 4 ('healthy'); use one of the classes of the meta file (ill, well)",
        "nodes.csv: split is not a split in row 5 ('validation'); use train, val, test",
        "edges.csv: dst is not the id of a node in row 1 ('zzz')",
        "edges.csv: weight is not a finite number of at least 0 in rows 2 ('-1'), 3 ('nan'), 4 ('many')",
        "edges.csv: src is empty in row 5;",
        "cross_edges.csv: src is not the id of a node in row 2 ('qq')",
        "cross_edges.csv: peer is empty in row 3;",
        "features.npy: there is a NaN or infinite value in rows 2, 3;",
    ):
        assert expected in report
    labelled = nodes.replace(b"healthy", b"ill")
    assert "a node without a label is in a split in row 7" in "\n".join(problems_of(folder(nodes=labelled)))


def test_missing_and_doubled_files(folder, tmp_path):
    assert len(problems_of(tmp_path)) == 3
    path = folder(nodes__jsonl="", tag__toml='name = "x"', meta={"name": "x"})
    report = "\n".join(problems_of(path))
    assert "nodes.csv and nodes.jsonl are both there" in report
    assert "meta.json and tag.toml are both there" in report
    assert "classes is None; list the federation's class names" in report
    with pytest.raises(DataError, match="is not a folder"):
        read_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("classes", [[], "ab", [1, 2], ["a", "a"], ["a", " "], None])
def test_malformed_classes(folder, classes):
    assert "classes is" in problems_of(folder(meta={"name": "x", "classes": classes}))[0]


@pytest.mark.parametrize("meta", ["{", "[1]", b"\xff\xfe{\x00"])
def test_malformed_meta(folder, meta):
    assert problems_of(folder(meta=meta))[0].startswith("meta.json: ")


def test_missing_columns(folder):
    report = "\n".join(problems_of(folder(nodes="id,words\n1,x\n", edges="a,b\n1,2\n")))
    for column in ("node_id", "text", "label", "src, dst"):
        assert f"column {column} is missing" in report
    assert "found: 'a, b'" in report


def test_no_training_node(folder):
    nodes = NODES.replace("train", "test")
    assert problems_of(folder(nodes=nodes)) == (
        (
            "nodes.csv: no labelled node is in the split train; mark some, or draw a split with data.split = "
            "0.6,0.2,0.2."
        ),
    )
    assert read_folder(folder(nodes=nodes), require_training=False).graph.num_nodes == 4


def test_no_node_at_all(folder):
    path = folder(nodes="node_id,text,label\n", edges="src,dst\n")
    assert "there is no node" in problems_of(path, require_training=False)[0]
    assert "the file is empty" in problems_of(folder(nodes=""), require_training=False)[0]


def test_long_lists_are_cut(folder):
    edges = "src,dst\n" + "".join(f"1,{node}\n" for node in range(100, 150))
    (report,) = problems_of(folder(edges=edges))
    assert "rows 1 (100), 2 (101)" in report
    assert "20 (119) and 30 more" in report
    assert "120" not in report


def test_ordinary_but_awkward_csv(folder):
    large = "x" * 10_000_000
    nodes = (
        "\ufeffnode_id,text,label,split,note\r\n"
        '1,"two\r\nlines, ""quoted""",ill,train,kept\r\n'
        "2,\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627,well,none,\r\n"
        f"3,{large},,,\r\n"
        '4,5" wide,,,\r\n'
    )
    graph = read_folder(folder(nodes=nodes)).graph
    assert graph.texts == (
        'two\r\nlines, "quoted"',
        "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
        large,
        '5" wide',
    )
    assert graph.extra["note"].to_pylist() == ["kept", "", "", ""]


def test_an_open_quote_is_found(folder):
    nodes = 'node_id,text,label,split\n1,x,ill,train\n2,"open,ill,\n3,z,ill,\n4,w,ill,\n'
    report = "\n".join(problems_of(folder(nodes=nodes)))
    assert "a quote is opened and never closed in row 2" in report


def test_utf16_is_named(folder):
    assert "header is not CSV in UTF-8" in problems_of(folder(nodes=NODES.encode("utf-16")))[0]


def test_jsonl(folder):
    lines = [
        {"node_id": "p1", "text": "a\nb", "label": 1, "split": "train", "year": 2001},
        {"node_id": "p2", "text": None, "label": None},
        {"node_id": "p3", "text": "c", "label": "ill", "split": "test"},
    ]
    nodes = "\n".join(json.dumps(line) for line in lines)
    graph = read_folder(folder(nodes=None, nodes__jsonl=nodes, edges="src,dst\np1,p3\n")).graph
    assert graph.node_ids == ("p1", "p2", "p3")
    assert graph.texts == ("a\nb", "", "c")
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.extra["year"].to_pylist() == [2001, None, None]


def test_malformed_jsonl(folder):
    good = json.dumps({"node_id": 1, "text": "x", "label": 0, "split": "train"}).encode()
    nodes = b"\n".join(
        [good, b"{broken", b"[1]", b'{"node_id": 2, "text": "caf\xe9"}', b'{"text": "\\ud800"}']
    )
    report = "\n".join(problems_of(folder(nodes=None, nodes__jsonl=nodes, edges="src,dst\n")))
    assert "the line is not one JSON object in rows 2, 3;" in report
    assert "the text is not valid UTF-8 in rows 4, 5;" in report


def test_parquet_of_pandas_with_gaps(folder):
    path = folder(nodes=None, edges=None)
    columns = {
        "node_id": pa.array([7, 8, 9], pa.int32()),
        "text": pa.array(["x", None, "z"]).dictionary_encode(),
        "label": pa.array([1.0, None, float("nan")]),
        "split": pa.array(["train", None, "none"]),
    }
    parquet.write_table(pa.table(columns), path / "nodes.parquet")
    edges = {"src": ["7", "8"], "dst": ["9", "9"], "weight": pa.array([0.5, 2], pa.float16())}
    parquet.write_table(pa.table(edges), path / "edges.parquet")
    graph = read_folder(path).graph
    assert graph.node_ids == (7, 8, 9)
    assert graph.labels.tolist() == [1, -1, -1]
    assert graph.edges.tolist() == [[0, 2], [1, 2]]
    assert graph.edge_weights.tolist() == [0.5, 2]


def test_parquet_with_invalid_text_and_types(folder):
    path = folder(nodes=None)
    invalid = pa.array([b"fine", b"\xff\xfe"]).view(pa.string())
    columns = {"node_id": [1.5, 2.0], "text": invalid, "label": [True, False], "split": ["train", ""]}
    parquet.write_table(pa.table(columns), path / "nodes.parquet")
    report = "\n".join(problems_of(path))
    assert "text is not valid UTF-8 in row 2" in report
    assert "node_id is not a whole number or string in row 1 (1.5)" in report
    assert "label is not a class in rows 1 (True), 2 (False)" in report
    (path / "nodes.parquet").write_bytes(b"PAR1 and nothing")
    assert "nodes.parquet: is cut off or damaged; copy or download it again" in "\n".join(problems_of(path))


def test_ids_with_leading_zeros_stay_strings(folder):
    nodes = NODES.replace("\n1,", "\n007,")
    graph = read_folder(folder(nodes=nodes, edges="src,dst\n007,2\n3,2\n")).graph
    assert graph.node_ids == ("007", "2", "3", "4")
    assert len(graph.edges) == 2


def test_names_win_where_classes_look_like_numbers(folder):
    meta = {"name": "x", "classes": ["2", "1"]}
    nodes = "node_id,text,label,split\n1,x,1,train\n2,y,2,\n3,z,0,\n"
    report = problems_of(folder(nodes=nodes, meta=meta))
    assert "label is not a class in row 3 ('0')" in report[0]
    assert "by name" in report[0]
    assert read_folder(folder(nodes=nodes.replace(",0,", ",2,"), meta=meta)).graph.labels.tolist() == [
        1,
        0,
        0,
    ]


def test_index_outside_classes(folder):
    assert "row 3 ('2')" in problems_of(folder(nodes=NODES.replace(",0,", ",2,")))[0]


def test_directed_graph_keeps_both_directions(folder):
    meta = 'name = "x"\nclasses = ["ill", "well"]\ndirected = true\n[more]\nkey = 1\n'
    graph = read_folder(folder(meta=None, tag__toml=meta, edges="src,dst\n2,1\n1,2\n2,1\n")).graph
    assert graph.directed
    assert graph.edges.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 2), np.float32), r"the shape is \[3, 2\] but must be \[4, d\]"),
        (np.zeros((4, 0), np.float32), r"must be \[4, d\], d >= 1"),
        (np.zeros(4, np.float32), "must be one float32 array"),
        (np.array([["a"]] * 4), "must be one float32 array"),
        (np.full((4, 1), 1e300), "NaN or infinite value in rows 1, 2, 3, 4"),
    ],
)
def test_features_at_fault(folder, array, message):
    path = folder()
    np.save(path / "features.npy", array)
    with pytest.raises(DataError, match=message):
        read_folder(path)


def test_features_that_are_no_array(folder):
    with pytest.raises(DataError, match="not a readable array"):
        read_folder(folder(features__npy=b"no array"))


def test_features_become_float32(folder):
    path = folder()
    np.save(path / "features.npy", np.arange(8).reshape(4, 2))
    features = read_folder(path).graph.features
    assert features.dtype == np.float32
    assert features.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_cross_edges(folder):
    cross = "src,dst,peer\n1,x1,north\n3,7,south\n1,x1,north\n"
    reading = read_folder(folder(cross_edges__csv=cross))
    expected = CrossEdges(np.array([0, 2]), ("x1", "7"), ("north", "south"), np.ones(2, np.float32))
    assert reading.graph.cross_edges == expected
    assert reading.repairs.duplicate_edges == 1


@pytest.mark.parametrize("name", ["cora_text", "citeseer_text", "arxiv2023_titles"])
def test_real_folders(shared_data, name):
    meta = json.loads((shared_data / name / "meta.json").read_text())
    reading = read_folder(shared_data / name, require_training=False)
    graph = reading.graph
    assert graph.num_nodes == meta["num_nodes"]
    repairs = reading.repairs
    assert len(graph.edges) == meta["num_edges_undirected_unique"]
    rows = meta["num_edges_directed_rows"]
    assert repairs.self_loops + repairs.duplicate_edges == rows - len(graph.edges)
    assert (repairs.self_loops, repairs.isolated_nodes) == (meta["self_loops"], meta["isolated_nodes"])
    assert np.bincount(graph.labels, minlength=len(graph.classes)).tolist() == meta["class_counts"]
    assert np.bincount(graph.split, minlength=4).tolist() == [
        meta["split_counts"][part] for part in ("none", "train", "val", "test")
    ]


def test_row_numbers_count_records_not_lines(folder):
    nodes = 'node_id,text,label,split\n1,"a\nb",ill,train\n\n2,x\n3,y,bad,\n'
    report = "\n".join(problems_of(folder(nodes=nodes, edges="src,dst\n")))
    assert "the number of fields is not 4 in row 2 " in report
    assert "label is not a class in row 3 " in report


def test_old_line_ends_and_unsigned_ids(folder):
    path = folder(nodes=None, edges="src,dst\r1,2\r")
    columns = {
        "node_id": pa.array([1, 2], pa.uint64()),
        "text": ["", ""],
        "label": [0, 1],
        "split": ["train", ""],
    }
    parquet.write_table(pa.table(columns), path / "nodes.parquet")
    assert read_folder(path).graph.edges.tolist() == [[0, 1]]
    parquet.write_table(
        pa.table(columns | {"node_id": pa.array([1, 2**63], pa.uint64())}), path / "nodes.parquet"
    )
    assert "src is not the id of a node in row 1" not in problems_of(path)[0]
    assert problems_of(path)[0].startswith("edges.csv: dst is not the id of a node in row 1 (2)")


def test_the_name_of_the_folder_adds_no_column(folder, tmp_path):
    inner = tmp_path / "seed=0"
    inner.mkdir()
    path = folder(nodes=None)
    columns = {"node_id": [1, 2, 3], "text": ["x"] * 3, "label": [0, 1, 0], "split": ["train"] * 3}
    parquet.write_table(pa.table(columns), inner / "nodes.parquet")
    for name in ("edges.csv", "meta.json"):
        (path / name).rename(inner / name)
    assert read_folder(inner).graph.extra == {}
