"""What a folder may lack when a model is to predict for it, and what it may not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import NONE, TEST
from fedtag.common.errors import DataError

CLASSES = ("a", "b")


def folder(path: Path, nodes: str, meta: dict[str, object]) -> Path:
    path.mkdir()
    (path / "nodes.csv").write_text(nodes, encoding="utf-8")
    (path / "edges.csv").write_text("src,dst\n", encoding="utf-8")
    (path / "meta.json").write_text(json.dumps({"name": "site", **meta}), encoding="utf-8")
    return path


@pytest.mark.parametrize("meta", [{}, {"classes": None}, {"classes": ["a", "b"]}])
def test_labels_and_classes_may_be_absent(tmp_path: Path, meta: dict[str, object]) -> None:
    path = folder(tmp_path / "f", "node_id,text\n1,x\n2,y\n", meta)
    graph = read_folder(path, require_training=False, classes=CLASSES).graph
    assert graph.classes == CLASSES
    assert graph.labels.tolist() == [-1, -1]
    assert graph.split.tolist() == [NONE, NONE]
    with pytest.raises(DataError, match="column label is missing"):
        read_folder(path, require_training=False)


def test_labels_that_are_there_are_read(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", "node_id,text,label,split\n1,x,b,test\n2,y,,test\n3,z,0,\n", {})
    graph = read_folder(path, require_training=False, classes=CLASSES).graph
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.split.tolist() == [TEST, TEST, NONE]


@pytest.mark.parametrize("classes", [["b", "a"], ["a"], ["a", "b", "c"]])
def test_other_classes_are_one_problem(tmp_path: Path, classes: list[str]) -> None:
    path = folder(tmp_path / "f", "node_id,text,label\n1,x,c\n", {"classes": classes})
    with pytest.raises(DataError, match="but the model's classes are a, b; use a model of this") as caught:
        read_folder(path, require_training=False, classes=CLASSES)
    assert len(caught.value.problems) == 1


def test_the_rest_of_the_contract_holds(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", "node_id,label\n1,c\n1,a\n", {})
    with pytest.raises(DataError) as caught:
        read_folder(path, require_training=False, classes=CLASSES)
    sentences = " ".join(caught.value.problems)
    for part in ("column text is missing", "repeats an id", "label is not a class in row 1"):
        assert part in sentences
