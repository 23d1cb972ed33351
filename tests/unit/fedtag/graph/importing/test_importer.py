"""Which column is what, which edges follow, how an import is done again, and what it leaves where it fails."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from sklearn.neighbors import kneighbors_graph
from torch_geometric.data import Data

from fedtag.client.data import writing
from fedtag.client.data.folder import read_folder
from fedtag.client.data.splitting import drawn_split
from fedtag.client.data.text_graph import TextGraph
from fedtag.errors import ConfigError, DataError
from fedtag.graph.importing.columns import Candidate
from fedtag.graph.importing.importer import Imported, import_folder
from fedtag.graph.importing.recipe import RECIPE, Recipe, recipe_of

WORDS = ["harbour", "lens", "tide", "mirror", "sail", "prism", "quay", "light"]


def table(path: Path, columns: Mapping[str, Sequence[object]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def papers(count: int = 12) -> dict[str, list[object]]:
    return {
        "doi": [f"10.1/{row}" for row in range(count)],
        "title": [f"A study of {WORDS[row % 8]} and {WORDS[row // 8]}" for row in range(count)],
        "abstract": [f"We look at {WORDS[row % 8]} in part {row}." for row in range(count)],
        "authors": [f"A{row % 3}; B{row % 4}" for row in range(count)],
        "year": [2000 + row % 5 for row in range(count)],
        "field": ["ports" if row % 2 else "optics" for row in range(count)],
    }


def made(tmp_path: Path, columns: Mapping[str, Sequence[object]], **options: object) -> Imported:
    recipe = Recipe.of(nodes=table(tmp_path / "papers.csv", columns), **options)
    return import_folder(recipe, tmp_path / "out")


def read(found: Imported) -> TextGraph:
    return read_folder(found.folder, require_training=False).graph


def pairs(graph: TextGraph) -> set[frozenset[object]]:
    return {frozenset(graph.node_ids[row] for row in pair) for pair in graph.edges}


def test_columns_are_found_by_name_and_value_and_said_with_the_reason(tmp_path: Path) -> None:
    found = made(tmp_path, papers(), edges_from="authors")
    said = " | ".join(found.account.of("guessed"))
    assert "id is doi (its name" in said
    assert "label is field (its name, 2 values over 12 rows)" in said
    assert "text is title, abstract (its name)" in said
    assert "not used: year" in " ".join(found.account.of("read"))
    graph = read(found)
    assert graph.node_ids == tuple(papers()["doi"])
    assert graph.texts[3] == "title: A study of mirror and harbour\nabstract: We look at mirror in part 3."
    assert graph.classes == ("optics", "ports")


def test_two_columns_that_are_as_likely_are_asked_about_or_refused(tmp_path: Path) -> None:
    columns = papers() | {"topic": ["x" if row < 6 else "y" for row in range(12)]}
    with pytest.raises(
        DataError, match=r"the label may be one of field \(.*\); topic \(.*\): name it with label="
    ) as error:
        made(tmp_path, columns, edges_from="authors")
    assert error.value.exit_code == 2

    def asked(role: str, candidates: Sequence[Candidate]) -> str:
        assert (role, [one.column for one in candidates]) == ("label", ["field", "topic"])
        return "topic"

    recipe = Recipe.of(nodes=str(tmp_path / "papers.csv"), edges_from="authors")
    assert read(import_folder(recipe, tmp_path / "out", choose=asked)).classes == ("x", "y")


def test_ids_are_those_that_the_edges_name(tmp_path: Path) -> None:
    columns = papers() | {"number": list(range(12))}
    edges = table(
        tmp_path / "e.csv", {"when": [2001] * 3, "a": [0, 1, 2], "b": [5, 99, 2], "weight": [0.5, 1, 1]}
    )
    found = made(tmp_path, columns, edges=edges)
    graph = read(found)
    assert graph.node_ids == tuple(range(12))
    assert (pairs(graph), graph.edge_weights.tolist()) == ({frozenset({0, 5})}, [0.5])
    assert found.account.of("dropped") == ("1 edge to what is no node: 99", "1 edge from a node to itself")


def test_a_missing_column_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"papers.csv: column absract is missing; did you mean 'abstract'\?$"):
        made(tmp_path, papers(), text=["absract"])
    edges = table(tmp_path / "e.csv", {"citing": ["10.1/1"], "cited": ["10.1/2"]})
    with pytest.raises(DataError, match=r"e.csv: column cites is missing; did you mean 'cited'"):
        made(tmp_path, papers(), edges=edges, src="cites", dst="cited")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("cap", [2, 4, 10])
def test_nodes_that_share_a_value_are_linked_up_to_a_cap(tmp_path: Path, cap: int) -> None:
    columns = papers() | {"authors": [f"all; pair {row // 2}" for row in range(12)]}
    graph = read(made(tmp_path, columns, edges_from="authors", edges_cap=cap))
    ids = columns["doi"]
    stated = {frozenset(ids[row : row + 2]) for row in range(0, 12, 2)}
    assert stated <= pairs(graph)
    degrees = np.bincount(graph.edges.reshape(-1))
    assert degrees.max() <= cap + 1
    assert degrees.min() >= cap
    weights = {
        frozenset(graph.node_ids[row] for row in pair): weight
        for pair, weight in zip(graph.edges, graph.edge_weights, strict=True)
    }
    circle = sorted(ids)
    near = {
        frozenset((circle[row], circle[(row + step) % 12]))
        for row in range(12)
        for step in range(1, cap // 2 + 1)
    }
    assert weights == {pair: float((pair in near) + (pair in stated)) for pair in near | stated}


def test_few_that_share_a_value_are_all_linked(tmp_path: Path) -> None:
    columns = papers() | {"authors": [f"A{row % 3}" for row in range(12)]}
    graph = read(made(tmp_path, columns, edges_from="authors"))
    groups = [[f"10.1/{row}" for row in range(start, 12, 3)] for start in range(3)]
    assert pairs(graph) == {frozenset(pair) for group in groups for pair in itertools.combinations(group, 2)}


@pytest.mark.parametrize(
    "write",
    [";".join, ", ".join, " ".join, lambda ids: str(list(ids)), lambda ids: str([*ids]).replace("'", '"')],
)
def test_lists_of_other_nodes_are_edges_whatever_stands_between(tmp_path: Path, write) -> None:
    cited = [[f"10.1/{(row + 1) % 12}", f"10.1/{(row + 5) % 12}", "10.9/elsewhere"] for row in range(12)]
    found = made(tmp_path, papers() | {"refs": [write(one) for one in cited]})
    assert pairs(read(found)) == {
        frozenset((f"10.1/{row}", one)) for row in range(12) for one in cited[row][:2]
    }
    assert any(
        "edges are in refs (67% of what it lists are ids)" in one for one in found.account.of("guessed")
    )
    assert any(one.startswith("12 elements of refs that are no node") for one in found.account.of("dropped"))


def test_nearest_texts_are_edges(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(12, 5)).astype(np.float32)
    recipe = Recipe.of(nodes=table(tmp_path / "papers.csv", papers()), edges_knn=3)
    graph = read(import_folder(recipe, tmp_path / "out", vectors=lambda texts: vectors[: len(texts)]))
    matrix = kneighbors_graph(vectors, 3, metric="cosine").tocoo()
    expected = {frozenset((int(a), int(b))) for a, b in zip(matrix.row, matrix.col, strict=True)}
    assert {frozenset(pair) for pair in graph.edges.tolist()} == expected


def test_no_edges_are_refused_with_what_makes_some(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there are no edges: give a second table.*edges_from=.*edges_knn=5"):
        made(tmp_path, papers())


def test_an_import_is_done_again_with_the_ids_splits_and_classes_that_it_had(tmp_path: Path) -> None:
    before = read(made(tmp_path, papers(40), edges_from="authors"))
    more = papers(60)
    more["field"][50:] = ["alchemy"] * 10
    order = np.random.default_rng(0).permutation(60)
    table(tmp_path / "papers.csv", {name: [values[row] for row in order] for name, values in more.items()})
    recipe, place = recipe_of(str(tmp_path / "out" / RECIPE), {})
    assert place == tmp_path / "out"
    found = import_folder(recipe, place, place)
    after = read(found)
    splits = dict(zip(after.node_ids, after.split, strict=True))
    assert [splits[node] for node in before.node_ids] == before.split.tolist()
    assert after.num_nodes == 60
    assert after.classes == before.classes
    assert any(
        one.startswith("label alchemy of 10 nodes, which is no class") for one in found.account.of("dropped")
    )
    # Without what was kept, some would have moved.
    fresh = drawn_split(after.node_ids, after.labels)
    assert (fresh != after.split).any()


def test_classes_of_a_federation_and_labels_that_are_renamed(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("ports\noptics\n\nbotany\n", encoding="utf-8")
    columns = papers()
    columns["field"][:3] = ["Ports", "port", "?"]
    nodes = table(tmp_path / "papers.csv", columns)
    options = {"edges_from": "authors", "map": {"Ports": "ports", "?": ""}}
    recipe, _ = recipe_of(nodes, options, tmp_path / "classes.txt")
    found = import_folder(recipe, tmp_path / "out")
    graph = read(found)
    assert graph.classes == ("ports", "optics", "botany")
    assert graph.labels[:4].tolist() == [0, -1, -1, 0]
    assert (
        found.account.of("dropped")[0]
        == "label port of 1 node, which is no class; the nearest is ports: map='port=ports'"
    )


@pytest.mark.parametrize(
    ("values", "classes", "labels"),
    [
        (["2.0", "10.0", "", "2"], ("2", "10"), [0, 1, -1, 0]),
        (["b", "a", " ", "NA"], ("NA", "a", "b"), [2, 1, -1, 0]),
        (["Ha\u0308fen", "H\u00e4fen", "x", "x"], ("H\u00e4fen", "x"), [0, 0, 1, 1]),
    ],
)
def test_labels_follow_the_rule_of_every_format(tmp_path: Path, values, classes, labels) -> None:
    columns = papers(4) | {"field": values}
    graph = read(made(tmp_path, columns, edges_from="authors", label="field"))
    assert (graph.classes, graph.labels.tolist()) == (classes, labels)


def test_a_split_is_taken_or_drawn_and_written_or_left(tmp_path: Path) -> None:
    parts = ["train", "Validation", "test"] * 4
    found = made(tmp_path, papers() | {"set": parts}, edges_from="authors")
    assert read(found).split.tolist() == [1, 2, 3] * 4
    assert "split Validation is val" in found.account.of("repaired")
    found = made(tmp_path, papers(), edges_from="authors", write_split=False)
    assert "split" not in parquet.read_schema(found.folder / "nodes.parquet").names
    assert any(one.startswith("no split was given") for one in found.account.of("made"))


def test_without_ids_texts_make_them_in_any_order(tmp_path: Path) -> None:
    columns = {name: papers()[name] for name in ("title", "authors", "field")}
    first = read(made(tmp_path, columns, edges_from="authors"))
    again = read(
        made(tmp_path, {name: values[::-1] for name, values in columns.items()}, edges_from="authors")
    )
    assert dict(zip(first.node_ids, first.texts, strict=True)) == dict(
        zip(again.node_ids, again.texts, strict=True)
    )
    assert pairs(first) == pairs(again)


def test_faults_name_the_columns_as_their_owner_does(tmp_path: Path) -> None:
    columns = papers()
    columns["doi"][4] = columns["doi"][1]
    columns["doi"][7] = ""
    with pytest.raises(
        DataError, match=r"papers.csv: doi is empty in line 9;.*\n.*papers.csv: doi repeats an id in line 6"
    ):
        made(tmp_path, columns, id="doi", edges_from="authors")


def test_an_import_that_ends_early_leaves_nothing_or_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def left() -> list[str]:
        return sorted(path.name for path in tmp_path.iterdir())

    with monkeypatch.context() as patch:
        patch.setattr(writing.parquet, "write_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, papers(), edges_from="authors")
    assert left() == ["papers.csv"]
    before = read(made(tmp_path, papers(), edges_from="authors"))
    with monkeypatch.context() as patch:
        patch.setattr(writing.json, "dumps", interrupted)
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, papers(8), edges_from="authors")
    assert left() == ["out", "papers.csv"]
    assert read_folder(tmp_path / "out").graph == before
    with monkeypatch.context() as patch:
        rename = Path.rename
        patch.setattr(
            Path,
            "rename",
            lambda one, to: (
                rename(one, to)
                if one.name == "out" or (to.name == "out" and "former" in one.name)
                else interrupted()
            ),
        )
        with pytest.raises(KeyboardInterrupt):
            made(tmp_path, papers(8), edges_from="authors")
    assert read_folder(tmp_path / "out").graph == before


def test_folders_of_others_and_the_files_themselves_are_not_replaced(tmp_path: Path) -> None:
    made(tmp_path, papers(), edges_from="authors")
    (tmp_path / "out" / RECIPE).unlink()
    with pytest.raises(DataError, match="out is there, and no import wrote it"):
        made(tmp_path, papers(), edges_from="authors")
    inside = table(tmp_path / "out" / "papers.csv", papers())
    with pytest.raises(DataError, match=r"papers.csv lies in .*out, which would be replaced"):
        import_folder(Recipe.of(nodes=inside, edges_from="authors"), tmp_path / "out")


@pytest.mark.parametrize(
    "content", ["nodes = 3", "nodes = 'a'\ncolour = 'b'", "nodes =", "nodes = 'a'\nedges-cap = 1"]
)
def test_a_recipe_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / RECIPE).write_text(content)
    with pytest.raises(ConfigError, match="is no recipe of an import"):
        recipe_of(str(tmp_path / RECIPE), {})


def test_a_graph_of_torch_keeps_texts_classes_and_masks(tmp_path: Path) -> None:
    data = Data(
        x=torch.rand(4, 3), edge_index=torch.tensor([[0, 1, 2], [1, 0, 3]]), y=torch.tensor([0, 1, 0, 1]),
        train_mask=torch.tensor([True, True, False, False]), test_mask=torch.tensor([False, False, True, True]),
        raw_texts=["a", "b", "", "d"], label_names=["x", "y"],
    )  # fmt: skip
    torch.save(data, tmp_path / "d.pt")
    graph = read(import_folder(Recipe.of(nodes=str(tmp_path / "d.pt")), tmp_path / "out"))
    assert (graph.texts, graph.classes, graph.labels.tolist()) == (
        ("a", "b", "", "d"),
        ("x", "y"),
        [0, 1, 0, 1],
    )
    assert graph.split.tolist() == [1, 1, 3, 3]
    assert (graph.directed, graph.edges.tolist()) == (True, [[0, 1], [1, 0], [2, 3]])


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_file_of_torch_runs_no_code(tmp_path: Path) -> None:
    torch.save(Bomb(tmp_path / "ran"), tmp_path / "d.pt")
    with pytest.raises(DataError, match=r"d.pt: is not a graph of PyTorch Geometric alone"):
        import_folder(Recipe.of(nodes=str(tmp_path / "d.pt")), tmp_path / "out")
    assert not (tmp_path / "ran").exists()
    torch.load(tmp_path / "d.pt", weights_only=False)
    assert (tmp_path / "ran").exists()


def test_arrays_of_numpy(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(6, 2)).astype(np.float32)
    np.savez(tmp_path / "g.npz", x=x, y=[0, 1, 0, 1, 0, -1], edge_index=[[0, 1], [1, 2]])
    graph = read(
        import_folder(Recipe.of(nodes=str(tmp_path / "g.npz"), classes=["p", "q"]), tmp_path / "out")
    )
    assert graph.features is not None
    assert np.array_equal(graph.features, x)
    assert (graph.classes, graph.edges.tolist()) == (("p", "q"), [[0, 1], [1, 2]])
    with pytest.raises(DataError, match=r"g.npz holds arrays and no columns: leave out label="):
        import_folder(Recipe.of(nodes=str(tmp_path / "g.npz"), label="y"), tmp_path / "out")


def test_lists_that_were_taken_whole_are_told_with_the_remedy(tmp_path: Path) -> None:
    names = [f"Ann {row}, Ann {(row + 1) % 12}" for row in range(12)]
    found = made(tmp_path, papers() | {"authors": names}, edges_from="authors")
    (hint, unlinked) = found.account.of("left")
    assert hint.startswith("most nodes without an edge, as values of authors were taken whole")
    assert "they link 12 of 12 nodes in place of 0" in hint
    assert hint.endswith("give list_separator=','")
    assert unlinked == "12 nodes without an edge"
    assert not any("without an edge" in one for one in found.account.of("read"))
    split = made(tmp_path, papers() | {"authors": names}, edges_from="authors", list_separator=",")
    assert len(read(split).edges) == 12
    assert split.account.of("left") == ()


def test_names_with_a_comma_stay_whole(tmp_path: Path) -> None:
    names = [f"Curie, M{row % 4}" for row in range(12)]
    found = made(tmp_path, papers() | {"authors": names}, edges_from="authors")
    assert len(read(found).edges) == 4 * 3
    assert found.account.of("left") == ()


def test_a_fault_is_told_by_the_line_on_which_its_row_begins(tmp_path: Path) -> None:
    columns = papers()
    columns["abstract"][2] = "two\nlines"
    columns["doi"][5] = ""
    with pytest.raises(DataError, match=r"doi is empty in line 8;"):
        made(tmp_path, columns, id="doi", edges_from="authors")
    lines = (tmp_path / "papers.csv").read_text(encoding="utf-8").splitlines()
    assert lines[7].startswith(",A study")
    broken = 'doi,title,field\n1,"a\nb",x\n\n2,c\n3,d,y\n'
    (tmp_path / "few.csv").write_text(broken, encoding="utf-8")
    with pytest.raises(DataError, match="the number of fields is not 3 in line 5;"):
        import_folder(
            Recipe.of(nodes=str(tmp_path / "few.csv"), text=["title"], edges_from="field"), tmp_path / "few"
        )
