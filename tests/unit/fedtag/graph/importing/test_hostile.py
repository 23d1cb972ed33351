"""Files that are made to fill a memory, run code, or mislead: refused, or read as what they hold; without network."""

from __future__ import annotations

import csv
import gzip
import io
import os
import pickle
import socket
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TextGraph
from fedtag.errors import DataError
from fedtag.graph.importing import compression
from fedtag.graph.importing.importer import import_folder
from fedtag.graph.importing.recipe import Recipe
from tests.unit.fedtag.graph.importing import written

ROWS = [(f"p{row}", f"We look at harbours in part {row}", "ab"[row % 2]) for row in range(12)]
NODES = "paper,abstract,field\n" + "".join(",".join(row) + "\n" for row in ROWS)
LINKS = "citing,cited\n" + "".join(f"p{row},p{(row * 5 + 1) % 12}\n" for row in range(12))
LARGE = 2**20


@pytest.fixture(autouse=True)
def without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)


def imported(folder: Path, name: str, content: str | bytes, **options: object) -> TextGraph:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "e.csv").write_text(LINKS)
    recipe = Recipe.of(nodes=str(folder / name), edges=str(folder / "e.csv"), **options)
    return read_folder(import_folder(recipe, folder / "out").folder, require_training=False).graph


def archive(members: Mapping[str, str | bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return held.getvalue()


def understated(content: bytes) -> bytes:
    """An archive of one member whose stated size is a hundred bytes."""
    stated = (100).to_bytes(4, "little")
    central = content.index(b"PK\x01\x02")
    content = content[: central + 24] + stated + content[central + 28 :]
    return content[:22] + stated + content[26:]


def arrays(size: int) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, x=np.zeros((size, 1)), y=np.zeros(size), edge_index=np.zeros((2, 0), int))
    return held.getvalue()


BLANK = b" " * 2 * LARGE
BOMBS: Mapping[str, tuple[str, bytes]] = {
    "gzip": ("n.csv.gz", gzip.compress(NODES.encode() + b"\n" * 2 * LARGE)),
    "zstd": ("n.csv.zst", pa.compress(NODES.encode() + b"\n" * 2 * LARGE, codec="zstd", asbytes=True)),
    "zip": ("n.zip", archive({"n.csv": NODES.encode() + b"\n" * 2 * LARGE})),
    "excel": ("n.xlsx", archive({"xl/workbook.xml": "<a/>", "xl/worksheets/sheet1.xml": BLANK})),
    "opendocument": ("n.ods", archive({"content.xml": BLANK})),
    "arrays": ("n.npz", arrays(LARGE)),
}


@pytest.mark.parametrize("form", BOMBS)
def test_a_small_file_does_not_fill_disk_or_memory(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, content = BOMBS[form]
    # Packed so, a table is refused from 256 MiB on; the same rule on a size that a test can write.
    monkeypatch.setattr(compression, "SMALL", LARGE)
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: is more than 200 times as large unpacked"):
        import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_bomb_that_states_another_size_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "n.ods"
    path.write_bytes(understated(archive({"content.xml": BLANK})))
    with pytest.raises(DataError, match=r"n\.ods: is cut off or damaged"):
        import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


def test_arrays_of_objects_run_no_code(tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "n.npz"
    np.savez(path, x=np.array([Touch(ran)], dtype=object), y=np.zeros(1), edge_index=np.zeros((2, 0), int))
    with pytest.raises(DataError, match=r"n\.npz: has an array that cannot be read \('Object arrays"):
        import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")
    (tmp_path / "n.npy").write_bytes(pickle.dumps(Touch(ran)))
    with pytest.raises(DataError, match=r"n\.npy: "):
        import_folder(Recipe.of(nodes=str(tmp_path / "n.npy")), tmp_path / "out")
    assert not ran.exists()
    with np.load(path, allow_pickle=True) as held:
        assert held["x"].shape == (1,)
    assert ran.exists(), "whoever unpickles it runs it"


def test_an_array_that_says_it_is_huge(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10)}
    )
    (tmp_path / "n.npz").write_bytes(archive({"x.npy": head.getvalue() + bytes(100)}))
    with pytest.raises(DataError, match=r"n\.npz: has an array that cannot be read"):
        import_folder(Recipe.of(nodes=str(tmp_path / "n.npz")), tmp_path / "out")


@pytest.mark.parametrize("form", ["graphml", "gexf"])
def test_entities_are_refused_in_every_form_of_xml(form: str, tmp_path: Path) -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    outside = f'<!DOCTYPE g [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]>'
    for number, kind in enumerate((f'<!DOCTYPE g [<!ENTITY e0 "x">{levels}<!ENTITY e "&e9;">]>', outside)):
        path = tmp_path / f"n{number}.{form}"
        path.write_text(f'<?xml version="1.0"?>{kind}<{form}>&e;</{form}>')
        with pytest.raises(DataError, match=f"{path.name}: declares a document type or entities"):
            import_folder(Recipe.of(nodes=str(path)), tmp_path / "out")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"x" * 5_000_000, "line 1 is longer than 2 MB"),
        (NODES.replace("p5,", "p5;"), "the number of fields is not 3 in line 7"),
        (
            "paper,abstract," + ",".join(f"x{place}" for place in range(100_000)),
            "has more than 10,000 columns",
        ),
    ],
)
def test_a_table_out_of_shape_is_refused(content: str | bytes, what: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"n.csv: {what}"):
        imported(tmp_path, "n.csv", content)


@pytest.mark.parametrize("content", [b"x" * 5_000_000, b'"paper,abstract\n' + b"p,a text\n" * 500_000])
def test_what_others_set_in_this_process_changes_no_answer(content: bytes, tmp_path: Path) -> None:
    def answer(largest: int) -> str:
        before = csv.field_size_limit(largest)
        try:
            with pytest.raises(DataError) as caught:
                imported(tmp_path, "n.csv", content)
        finally:
            csv.field_size_limit(before)
        return str(caught.value)

    assert answer(sys.maxsize) == answer(2**17)


@pytest.mark.parametrize(
    ("found", "put"),
    [
        ("harbours", "har\0bours"),
        ("We look", "=1+1 We look"),
        ("We look", "@SUM(A1) We look"),
        ("part", "\u202epart"),
    ],
)
def test_signs_that_mean_something_elsewhere_are_text(found: str, put: str, tmp_path: Path) -> None:
    graph = imported(tmp_path, "n.csv", NODES.replace(found, put, 2))
    assert graph.texts == tuple(
        ROWS[row][1].replace(found, put) if row < 2 else ROWS[row][1] for row in range(12)
    )


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_marks_and_wide_signs_with_the_line_ends_of_windows(encoding: str, tmp_path: Path) -> None:
    graph = imported(
        tmp_path, "n.csv", NODES.replace("\n", "\r\n").replace("harbours", "Häfen").encode(encoding)
    )
    assert (graph.num_nodes, graph.texts[3]) == (12, "We look at Häfen in part 3")


def test_columns_of_a_wide_table_are_found_among_the_first_and_named_among_all(tmp_path: Path) -> None:
    many = range(1500)
    head = "paper,abstract,field," + ",".join(f"x{place}" for place in many) + ",remark"
    body = "".join(",".join((*row, *("1" for _ in many), f"on {row[0]}")) + "\n" for row in ROWS)
    named = {"id": "paper", "text": ["abstract", "remark"], "label": "field"}
    assert imported(tmp_path, "n.csv", f"{head}\n{body}", **named).texts[2].endswith("\nremark: on p2")


def test_a_formula_of_a_workbook_is_the_value_that_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "n.xlsx"
    written.workbook(path, ("paper", "abstract", "field"), ROWS)
    with zipfile.ZipFile(path) as book:
        members = {name: book.read(name).decode() for name in book.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    cell = f'<c t="inlineStr"><is><t xml:space="preserve">{ROWS[0][1]}</t></is></c>'
    assert cell in members[sheet]
    members[sheet] = members[sheet].replace(
        cell, '<c t="str"><f>WEBSERVICE("http://x")</f><v>as saved</v></c>'
    )
    graph = imported(tmp_path, "n.xlsx", archive(members))
    assert graph.texts[:2] == ("as saved", ROWS[1][1])


@pytest.mark.parametrize("largest", [2**10, 2**17, sys.maxsize])
def test_the_line_of_a_fault_is_told_behind_long_texts(largest: int, tmp_path: Path) -> None:
    table = tmp_path / "n.csv"
    table.write_text(f"paper,abstract,field\np0,{'word ' * 60_000},a\np1,short,b\np1,again,b\n")
    before = csv.field_size_limit(largest)
    try:
        with pytest.raises(DataError, match="repeats an id in line 4"):
            import_folder(
                Recipe.of(nodes=str(table), id="paper", text=["abstract"], edges_from="field"),
                tmp_path / "out",
            )
        assert csv.field_size_limit() == largest
    finally:
        csv.field_size_limit(before)
