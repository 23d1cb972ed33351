"""Imports that are done again, and imports that are killed: what stays, what is told, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from torch_geometric.data import Data

from fedtag.client.data.folder import read_folder
from fedtag.client.data.splitting import drawn_split
from fedtag.client.data.text_graph import TextGraph
from fedtag.deploy.terminal.interruption import TERMINATED
from fedtag.errors import DataError
from fedtag.graph.importing.importer import Imported, import_folder
from fedtag.graph.importing.recipe import RECIPE, Recipe, recipe_of

Rows = Mapping[str, str]
ROWS = {f"p{row}": ("ports", "optics")[row % 2] for row in range(40)}


def table(folder: Path, rows: Rows) -> str:
    lines = [
        f"{node},We look at harbour {node},{field},A{row % 5}"
        for row, (node, field) in enumerate(rows.items())
    ]
    (folder / "n.csv").write_text("\n".join(["paper,abstract,field,author", *lines]) + "\n")
    return str(folder / "n.csv")


def read(found: Imported) -> TextGraph:
    return read_folder(found.folder, require_training=False).graph


def splits(graph: TextGraph) -> dict[object, int]:
    return dict(zip(graph.node_ids, graph.split.tolist(), strict=True))


def again(folder: Path, out: Path | None = None) -> Imported:
    recipe, place = recipe_of(str(folder / "out" / RECIPE), {})
    assert place is not None
    return import_folder(recipe, out or place, place)


@pytest.fixture
def first(tmp_path: Path) -> TextGraph:
    return read(import_folder(Recipe.of(nodes=table(tmp_path, ROWS), edges_from="author"), tmp_path / "out"))


def told(found: Imported, what: str) -> list[str]:
    return [one for one in found.account.of("read") if what in one]


def test_rows_that_went_and_ids_that_were_renamed_move_no_other_node(
    tmp_path: Path, first: TextGraph
) -> None:
    rows = {f"q{node}" if node in ("p3", "p4") else node: field for node, field in list(ROWS.items())[:-10]}
    table(tmp_path, rows)
    found = again(tmp_path)
    after, before = splits(read(found)), splits(first)
    assert [after[node] for node in rows if node in before] == [
        before[node] for node in rows if node in before
    ]
    assert told(found, "new node") == ["2 new nodes, and 12 gone of those that were there"]
    assert found.account.of("made")[-1].endswith("; unchanged is that of 28 nodes")
    assert not told(again(tmp_path), "new node")


@pytest.mark.parametrize("damage", [b"PAR1", None])
def test_a_folder_that_no_import_wrote_is_named(
    tmp_path: Path, first: TextGraph, damage: bytes | None
) -> None:
    (nodes,) = tmp_path.rglob("nodes.parquet")
    if damage is None:
        parquet.write_table(pa.table({"node_id": ["p1"], "split": ["validation"]}), nodes)
    else:
        nodes.write_bytes(damage)
    with pytest.raises(DataError, match=r"nodes\.parquet is not what an import wrote"):
        again(tmp_path)


def test_kept_splits_are_those_of_the_recipe_wherever_the_folder_is(tmp_path: Path, first: TextGraph) -> None:
    more = ROWS | {f"r{row}": "ports" for row in range(40)}
    other = import_folder(
        Recipe.of(nodes=table(tmp_path, more), edges_from="author", seed=9), tmp_path / "other"
    )
    others = splits(read(other))
    assert [others[node] for node in ROWS] != first.split.tolist()
    there = splits(read(again(tmp_path, tmp_path / "other")))
    assert [there[node] for node in ROWS] == first.split.tolist()
    assert there == splits(read(again(tmp_path, tmp_path / "third")))
    # An import of tables begins anew, whatever lies where its folder goes.
    fresh = read(import_folder(Recipe.of(nodes=table(tmp_path, more), edges_from="author"), tmp_path / "out"))
    assert fresh.split.tolist() == drawn_split(fresh.node_ids, fresh.labels).tolist() != list(there.values())


def arrays(folder: Path, nodes: int) -> str:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(nodes, 2)).astype(np.float32)
    np.savez(folder / "g.npz", x=x, y=np.arange(nodes) % 2, edge_index=[[0, 1], [1, 2]])
    return str(folder / "g.npz")


def tensors(folder: Path, nodes: int) -> str:
    data = Data(x=torch.rand(nodes, 2), y=torch.arange(nodes) % 2, edge_index=torch.tensor([[0, 1], [1, 2]]))
    torch.save(data, folder / "d.pt")
    return str(folder / "d.pt")


@pytest.mark.parametrize("write", [arrays, tensors])
def test_arrays_follow_the_same_rules(tmp_path: Path, write) -> None:
    recipe = Recipe.of(nodes=write(tmp_path, 20), seed=4)
    before = read(import_folder(recipe, tmp_path / "out"))
    assert before.split.tolist() == drawn_split(range(20), before.labels, seed=4).tolist()
    write(tmp_path, 30)
    found = again(tmp_path)
    assert read(found).split[:20].tolist() == before.split.tolist()
    assert told(found, "new node") == ["10 new nodes, and 0 gone of those that were there"]
    for classes, what in (
        (["a", "a"], "give distinct names"),
        (["H\u00e4fen", "Ha\u0308fen"], "differ in their Unicode normal form only"),
        (["a"], "name all with classes="),
    ):
        with pytest.raises(DataError, match=what):
            import_folder(recipe.but(classes=classes), tmp_path / "none")
    for option in ({"map": {"0": "a"}}, {"directed": True}, {"encoding": "latin-1"}):
        with pytest.raises(DataError, match=f"no columns: leave out {next(iter(option))}="):
            import_folder(recipe.but(**option), tmp_path / "none")
    assert (
        read(import_folder(recipe.but(classes=["Ha\u0308fen", "b", "c"]), tmp_path / "out")).classes[0]
        == "H\u00e4fen"
    )


STALLED = """
import sys, time
from fedtag.deploy.cli import app
def stall(event, given):
    # Nodes and edges are written, and the description, without which a folder is none, is not.
    if event == "open" and str(given[0]).endswith("meta.json"):
        print("writing", flush=True)
        time.sleep(120)
sys.addaudithook(stall)
app(sys.argv[1:])
"""


def killed(arguments: Sequence[str], number: int) -> int:
    """The exit status of an import that is killed while it writes."""
    with subprocess.Popen(
        [sys.executable, "-c", STALLED, "import", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == "writing"
        program.send_signal(number)
        return program.wait(60)


def test_a_killed_import_leaves_nothing_or_the_folder_that_was_there(tmp_path: Path) -> None:
    nodes, out = table(tmp_path, ROWS), tmp_path / "out"
    arguments = [nodes, "--edges-from", "author", "--out", str(out)]
    assert killed(arguments, signal.SIGKILL) == -signal.SIGKILL
    assert not out.exists()
    found = import_folder(Recipe.of(nodes=nodes, edges_from="author"), out)
    assert len(told(found, "which an import that was stopped left")) == 1
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    left = sorted(path.name for path in tmp_path.iterdir())
    # Whoever is asked to stop tidies up.
    table(tmp_path, {"p1": "ports", "p2": "optics"})
    assert killed(arguments, signal.SIGTERM) == TERMINATED
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == left
