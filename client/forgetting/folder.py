"""Rows of nodes and their edges taken out of a data folder, file by file, and all of them or none."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data import checks
from fedtag.client.data.problems import Problems
from fedtag.client.data.reading.files import read_table, table_files
from fedtag.client.data.values import composed
from fedtag.client.site.whole_file import write_whole
from fedtag.common.errors import DataError, RunError

JOURNAL = ".forgetting.json"
"""What is to be logged, the nodes of which not all else is removed, and the staged files that wait for that."""
STAGED = ".without-"
BOM = "\ufeff"
ENDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(table_files("nodes"), ("node_id",)),
    **dict.fromkeys(table_files("edges"), ("src", "dst")),
    **dict.fromkeys(table_files("cross_edges"), ("src",)),
}
"""Columns of each file that name a site's own nodes."""


@dataclass(frozen=True)
class Taken:
    """What is to be taken out.

    Args:
        rows: of nodes: their positions in the nodes file, from 0.
        edges: how many.
        files: new contents, by name.
    """

    rows: tuple[int, ...]
    edges: int
    files: Mapping[str, bytes]


def without(folder: Path, nodes: Collection[str]) -> Taken:
    """The files of a folder without some nodes; nothing is written.

    Args:
        folder: that `read_folder` can read.
        nodes: identifiers, as text.
    """
    rows: tuple[int, ...] = ()
    edges, files = 0, {}
    for name, columns in ENDS.items():
        if not (folder / name).is_file():
            continue
        content, gone = _filtered(folder / name, columns, frozenset(nodes))
        if not gone:
            continue
        files[name] = content
        if name.startswith("nodes"):
            rows = tuple(gone)
        else:
            edges += len(gone)
    if rows and (folder / "features.npy").is_file():
        buffer = io.BytesIO()
        kept = np.delete(np.load(folder / "features.npy", allow_pickle=False), list(rows), axis=0)
        np.save(buffer, kept, allow_pickle=False)
        files["features.npy"] = buffer.getvalue()
    return Taken(rows, edges, files)


def stage(folder: Path, taken: Taken) -> None:
    """Write the new files beside the old ones, which stay in place.

    Raises:
        DataError: the folder cannot be written; it names the rows, for whoever can.
    """
    try:
        for name, content in taken.files.items():
            write_whole(folder / f"{STAGED}{name}", content, like=folder / name)
    except OSError as error:
        numbers = ", ".join(str(row + 1) for row in taken.rows)
        raise DataError(
            f"{folder} cannot be written ({error.strerror}), and nothing was removed: take rows {numbers} out of its "
            f"nodes, the same rows out of features.npy, and their {taken.edges} edges; then call this again"
        ) from error


@dataclass(frozen=True)
class Journal:
    """What whoever goes on after a kill has to know.

    Args:
        receipts: facts of the log's lines, as they were before anything was removed.
        files: staged ones.
        nodes: identifiers of those of which not all else is removed; with none, `finish` may put the files in place.
    """

    receipts: list[dict[str, Any]]
    files: list[str]
    nodes: list[str]

    def write(self, folder: Path) -> None:
        """Keep it in a folder."""
        write_whole(folder / JOURNAL, json.dumps(vars(self)).encode())

    @classmethod
    def find(cls, folder: Path) -> Journal | None:
        """That of a call that did not come to its end.

        Raises:
            RunError: it is damaged.
        """
        path = folder / JOURNAL
        try:
            return cls(**json.loads(path.read_bytes())) if path.is_file() else None
        except (ValueError, TypeError, RecursionError) as error:
            raise RunError(f"{path} is damaged: delete it, and forget the node again") from error


def finish(folder: Path, log: Callable[[dict[str, Any]], None]) -> None:
    """Put staged files in place, where there are any; whoever is killed meanwhile does it with the next call.

    Args:
        folder: of the data.
        log: told each receipt.

    Raises:
        RunError: the journal is damaged.
    """
    found = Journal.find(folder)
    if found is None:
        return
    for name in found.files:
        staged = folder / f"{STAGED}{name}"
        if name in (*ENDS, "features.npy") and staged.is_file():
            staged.replace(folder / name)
    for receipt in found.receipts:
        log(receipt)
    (folder / JOURNAL).unlink()


def _filtered(path: Path, columns: tuple[str, ...], nodes: frozenset[str]) -> tuple[bytes, list[int]]:
    """The content of a file without some nodes, and the rows that are gone; ids are read as everywhere."""
    table = read_table(path, columns, Problems())
    assert table is not None
    wanted = composed(pa.array(sorted(nodes), pa.large_string()))
    gone = np.zeros(len(table), bool)
    for name in columns:
        ids = composed(checks.identifiers(table, name, Problems()).cast(pa.large_string()))
        gone |= pa.compute.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)
    without = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}[path.suffix]
    return without(path, frozenset(table.numbers(gone).tolist())), np.flatnonzero(gone).tolist()


def _parquet(path: Path, gone: frozenset[int]) -> bytes:
    with parquet.ParquetFile(path) as file:
        table = file.read()
    kept = [number not in gone for number in range(1, table.num_rows + 1)]
    buffer = io.BytesIO()
    parquet.write_table(table.filter(pa.array(kept, pa.bool_())), buffer)
    return buffer.getvalue()


def _csv(path: Path, gone: frozenset[int]) -> bytes:
    csv.field_size_limit(sys.maxsize)
    text = path.read_bytes().decode()
    mark = BOM if text.startswith(BOM) else ""
    records = filter(None, csv.reader(io.StringIO(text.removeprefix(BOM), newline="")))
    out = io.StringIO(newline="")
    kept = (record for number, record in enumerate(records) if number not in gone)
    csv.writer(out, lineterminator="\n").writerows(kept)
    return (mark + out.getvalue()).encode()


def _jsonl(path: Path, gone: frozenset[int]) -> bytes:
    with path.open("rb") as lines:
        return b"".join(line for number, line in enumerate(lines, start=1) if number not in gone)
