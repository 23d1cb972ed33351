"""A person's own graph in Python: what it is made of, what is wrong with it, how it is divided and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

import fedtag
from fedtag.client.data.folder import read_folder
from fedtag.client.data.sites import site_graphs
from fedtag.client.data.text_graph import TRAIN
from fedtag.errors import DataError

NAMED = {"id": "paper", "text": "abstract", "label": "field"}


def papers(count: int = 30) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "paper": [f"p{row}" for row in range(count)],
            "abstract": [f"On {'graphs' if row % 2 else 'trees'}, part {row}." for row in range(count)],
            "field": ["ab"[row % 2] for row in range(count)],
            "year": 2000 + np.arange(count),
        }
    )


def citations(count: int = 30) -> pd.DataFrame:
    rows = np.arange(count)
    return pd.DataFrame(
        {
            "when": 2001,
            "citing": [f"p{row}" for row in rows],
            "cited": [f"p{row}" for row in (rows + 2) % count],
            "strength": 0.5,
        }
    )


def told(graph: fedtag.Graph) -> list[tuple[str, str, str]]:
    table = graph.problems()
    return list(zip(table["where"], table["what"], table["remedy"], strict=True))


def listed(values: pd.Series) -> list[str | None]:
    return [None if pd.isna(value) else value for value in values]


def test_two_tables_are_a_graph() -> None:
    graph = fedtag.Graph.from_pandas(papers(), citations(), **NAMED, weight="strength", name="papers")
    assert graph.problems().empty
    assert (len(graph), graph.name, graph.classes) == (30, "papers", ("a", "b"))
    assert graph.nodes["text"].tolist() == papers()["abstract"].tolist()
    assert graph.nodes["label"].tolist() == papers()["field"].tolist()
    assert len(graph.edges) == 30
    assert set(graph.edges["weight"]) == {0.5}
    found = {frozenset(pair) for pair in zip(graph.edges["src"], graph.edges["dst"], strict=True)}
    assert found == {
        frozenset(pair) for pair in zip(citations()["citing"], citations()["cited"], strict=True)
    }


def test_a_split_is_drawn_by_class_and_said_where_there_is_none() -> None:
    graph = fedtag.Graph.from_pandas(papers(), citations(), **NAMED)
    counts = graph.nodes.groupby(["label", "split"]).size()
    assert counts.to_dict() == {
        (label, split): number for label in "ab" for split, number in (("train", 9), ("val", 3), ("test", 3))
    }
    assert "60%, 20%, 20%" in repr(graph)
    again = fedtag.Graph.from_pandas(papers(), citations(), **NAMED)
    other = fedtag.Graph.from_pandas(papers(), citations(), **NAMED, seed=1)
    assert graph.nodes.equals(again.nodes)
    assert not graph.nodes.equals(other.nodes)


def test_a_split_that_is_given_stays() -> None:
    nodes = papers().assign(part=["train", "test", None] * 10)
    graph = fedtag.Graph.from_pandas(nodes, citations(), **NAMED, split="part")
    assert graph.notes == ()
    assert listed(graph.nodes["split"]) == listed(nodes["part"])


@pytest.mark.parametrize(
    ("column", "near"),
    [({"id": "papr"}, "paper"), ({"text": "abstrakt"}, "abstract"), ({"label": "fields"}, "field")],
)
def test_a_wrong_column_names_the_nearest_ones(column: dict[str, str], near: str) -> None:
    graph = fedtag.Graph.from_pandas(papers(), citations(), **{**NAMED, **column})
    (where, what, remedy), *_ = told(graph)
    assert (where, what) == ("nodes", f"column {next(iter(column.values()))} is missing")
    assert near in remedy
    with pytest.raises(DataError, match=f"did you mean '{near}'"):
        len(graph)


def test_ends_that_cannot_be_told_are_asked_for() -> None:
    three = citations().assign(third="p1")
    graph = fedtag.Graph.from_pandas(papers(), three, **NAMED)
    assert [remedy for _, _, remedy in told(graph)] == ["name them with src= and dst="]
    assert "citing, cited, third" in told(graph)[0][1]
    named = fedtag.Graph.from_pandas(papers(), three, **NAMED, src="citing", dst="cited")
    assert named.problems().empty


def test_a_third_column_of_ids_is_never_taken_for_an_end() -> None:
    """Also where it looks better than an end, one of which is unknown."""
    nodes = papers().assign(paper=range(30))
    edges = pd.DataFrame({"src": [0, 1, 2], "dst": [1, 2, 99], "count": [3, 4, 5]})
    table = fedtag.Graph.from_pandas(nodes, edges, **NAMED).problems()
    assert table["remedy"].tolist() == ["name them with src= and dst="]


def test_ends_with_a_few_unknown_ids_are_found_and_the_ids_told() -> None:
    edges = citations()
    edges.loc[3, "cited"] = "nobody"
    table = fedtag.Graph.from_pandas(papers(), edges, **NAMED).problems()
    assert table["rows"].tolist() == [[4]]
    assert table["what"].tolist() == ["dst is not the id of a node"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    nodes = papers()
    nodes.loc[[2, 5], "paper"] = "p0"
    nodes.loc[7, "field"] = "c"
    table = fedtag.Graph.from_pandas(nodes, citations(), **NAMED, classes=["a", "b"]).problems()
    rows = dict(zip(table["what"], table["rows"], strict=True))
    assert rows["node_id repeats an id"] == [3, 6]
    assert rows["label is not a class"] == [8]
    assert table["remedy"].str.len().min() > 0


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        (papers().drop(columns="abstract"), "column abstract is missing"),
        (papers().iloc[:0], "there is no node"),
        (papers().assign(abstract=pd.Series(["\ud800"] * 30, dtype=object)), "abstract is not valid Unicode"),
        (papers().assign(paper=np.linspace(0, 1, 30)), "node_id is not a whole number or string"),
        ([1, 2, 3], "is 'list'"),
    ],
)
def test_what_is_no_table_of_nodes_is_told(nodes: Any, what: str) -> None:
    assert any(
        said.startswith(what) for _, said, _ in told(fedtag.Graph.from_pandas(nodes, citations(), **NAMED))
    )


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"directed": "no"}, "is 'no'"),
        ({"name": 5}, "is 5"),
        ({"features": [["x"]] * 30}, "are no numbers of one shape"),
        ({"classes": ["a", "a", "b"]}, "classes is"),
    ],
)
def test_arguments_that_cannot_be_are_told(changed: dict[str, Any], what: str) -> None:
    assert told(fedtag.Graph.from_pandas(papers(), citations(), **NAMED, **changed))[0][1].startswith(what)


@pytest.mark.parametrize("edges", [[("p1", "p2")], citations().to_numpy(), None])
def test_what_is_no_table_of_edges_is_told(edges: Any) -> None:
    assert told(fedtag.Graph.from_pandas(papers(), edges, **NAMED))[0][2] == "give a pandas DataFrame"


def test_what_was_left_out_is_said() -> None:
    edges = pd.concat([citations(), citations().head(3), pd.DataFrame({"citing": ["p1"], "cited": ["p1"]})])
    assert "4 self-loops and repeated edges left out" in repr(
        fedtag.Graph.from_pandas(papers(), edges, **NAMED)
    )


@pytest.mark.parametrize(
    ("masks", "what"),
    [
        (
            {"train_mask": torch.ones(3, dtype=torch.bool), "val_mask": torch.ones(3, dtype=torch.bool)},
            "train_mask and val_mask share 3 nodes",
        ),
        ({"train_mask": torch.tensor([0.5, 1])}, "[2] of float32"),
    ],
)
def test_masks_that_are_none_are_told(masks: dict[str, torch.Tensor], what: str) -> None:
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([0, 1, 1]), **masks)
    assert what in told(fedtag.Graph.from_pyg(data))[0][1]


def test_features_take_the_place_of_texts() -> None:
    columns = papers()[["paper", "field"]].assign(first=1.0, second=np.arange(30.0))
    by_name = fedtag.Graph.from_pandas(
        columns, citations(), id="paper", label="field", features=["first", "second"]
    )
    matrix = columns[["first", "second"]].to_numpy()
    by_array = fedtag.Graph.from_pandas(columns, citations(), id="paper", label="field", features=matrix)
    assert by_name.text_graph == by_array.text_graph
    assert np.array_equal(by_name.text_graph.features, matrix.astype(np.float32))
    without = fedtag.Graph.from_pandas(columns, citations(), id="paper", label="field")
    assert [what for _, what, _ in told(without)] == ["there are neither texts nor features"]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([10, 9], ("9", "10")),
        (pd.Categorical(["x", "y"], categories=["y", "x"]), ("y", "x")),
        ([1.0, None], ("1",)),
        (np.array([2.0, 1.0], np.float32), ("1", "2")),
        (["b", "a"], ("a", "b")),
    ],
)
def test_classes_have_the_order_of_categories_numbers_or_the_alphabet(
    values: Any, classes: tuple[str, ...]
) -> None:
    nodes = pd.DataFrame({"id": [0, 1], "text": ["x", "y"], "label": values})
    graph = fedtag.Graph.from_pandas(
        nodes, pd.DataFrame({"a": [0], "b": [1]}), id="id", text="text", label="label"
    )
    assert graph.classes == classes


def test_a_graph_of_networkx_is_that_of_its_tables() -> None:
    drawn = nx.Graph(name="drawn")
    for row in papers().itertuples():
        drawn.add_node(row.paper, abstract=row.abstract, field=row.field)
    drawn.add_weighted_edges_from(citations()[["citing", "cited", "strength"]].itertuples(index=False))
    found = fedtag.Graph.from_networkx(drawn, text="abstract", label="field", weight="weight", name="papers")
    tables = fedtag.Graph.from_pandas(papers(), citations(), **NAMED, weight="strength", name="papers")
    assert found.text_graph == tables.text_graph
    assert fedtag.Graph.from_networkx(drawn.to_directed(), text="abstract", label="field").text_graph.directed
    missing = fedtag.Graph.from_networkx(drawn, text="abstrct", label="field")
    assert told(missing) == [("graph", "no node has abstrct", "use one of abstract, field")]
    unweighted = fedtag.Graph.from_networkx(drawn, text="abstract", label="field", weight="weigth")
    assert told(unweighted) == [("graph", "no edge has weigth", "use one of weight")]
    unfeatured = fedtag.Graph.from_networkx(drawn, label="field", features="vector")
    assert told(unfeatured)[0][1] == "vector is no vector of one length at every node"
    strange = fedtag.Graph.from_networkx(nx.Graph([((1, 2), (3, 4))]), text="abstract")
    assert "relabel_nodes" in told(strange)[0][2]


def test_a_graph_of_pyg_is_read_with_its_masks() -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    masks = {f"{name}_mask": torch.arange(3) == row for row, name in enumerate(("train", "val", "test"))}
    data = Data(x=torch.eye(3), edge_index=edges, y=torch.tensor([1, 0, -1]), **masks)
    graph = fedtag.Graph.from_pyg(data)
    assert listed(graph.nodes["split"]) == ["train", "val", None], "a node without a label is in no split"
    assert graph.classes == ("0", "1")
    assert not graph.text_graph.directed
    assert len(graph.edges) == 2
    texts = fedtag.Graph.from_pyg(data, ["a", "b", "c"], classes=["no", "yes"])
    assert texts.text_graph.features is None
    assert listed(texts.nodes["label"]) == ["yes", "no", None]
    assert fedtag.Graph.from_pyg(Data(x=torch.eye(3), edge_index=edges[:, :1])).text_graph.directed
    assert "one a node" in told(fedtag.Graph.from_pyg(data, ["a"]))[0][2]
    assert "no edge_index" in told(fedtag.Graph.from_pyg([data]))[0][1]


def test_folders_are_read_and_written(tmp_path: Path) -> None:
    graph = fedtag.Graph.from_pandas(papers(), citations(), **NAMED)
    folder = graph.to_folder(tmp_path / "papers")
    assert read_folder(folder).graph == graph.text_graph
    again = fedtag.Graph.from_folder(folder)
    assert (again.text_graph, again.source) == (graph.text_graph, str(folder))
    (folder / "edges.parquet").unlink()
    assert told(fedtag.Graph.from_folder(folder)) == [
        ("papers", "there is no edges.parquet or edges.csv or edges.jsonl", "add one")
    ]
    assert "is not a folder" in told(fedtag.Graph.from_folder(tmp_path / "nowhere"))[0][1]
    ((where, what, remedy),) = told(fedtag.Graph.from_npz(tmp_path / "no.npz"))
    assert (where, what, remedy) == ("no.npz", f"there is no file {tmp_path / 'no.npz'}", "check the path")


def test_a_folder_is_the_same_from_wherever_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fedtag.Graph.from_pandas(papers(), citations(), **NAMED).to_folder(tmp_path / "papers")
    monkeypatch.chdir(tmp_path)
    graph = fedtag.Graph.from_folder("papers")
    monkeypatch.chdir("/")
    assert Path(graph.source) == folder
    # Several sources stand side by side with semicolons between them.
    odd = fedtag.Graph.from_folder(graph.to_folder(tmp_path / "a;b"))
    assert (len(odd), odd.source) == (30, "")


def test_a_partition_is_that_of_a_simulation(
    write_feature_folder: Callable[..., Path], tmp_path: Path
) -> None:
    graph = fedtag.Graph.from_folder(write_feature_folder(tmp_path / "data"))
    parts = graph.partition(clients=3, by="random", seed=4, overlap=0.2)
    assert [part.name for part in parts] == ["client-00", "client-01", "client-02"]
    own = [part.nodes.dropna(subset="label")["id"].to_numpy() for part in parts]
    assert sorted(np.concatenate(own)) == list(range(60))
    expected = site_graphs(graph.text_graph, [np.sort(rows) for rows in own], 0.2, 4)
    assert [part.text_graph for part in parts] == list(expected)
    assert any((part.text_graph.split == TRAIN).any() for part in parts)


def test_what_is_wrong_is_counted_and_mended_in_memory() -> None:
    edges = pd.concat([citations(), pd.DataFrame({"citing": ["p1"], "cited": ["p999"]})], ignore_index=True)
    graph = fedtag.Graph.from_pandas(papers(), edges, **NAMED, src="citing", dst="cited")
    assert repr(graph) == "<fedtag.Graph with 1 problem: see problems()>"
    assert graph.problems().loc[0, "remedy"] == "add the node or remove the edge"
