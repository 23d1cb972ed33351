"""A drawn split, written down in the nodes file of a folder that was made by hand."""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.assembly import NODE_COLUMNS
from fedtag.client.data.problems import Problems
from fedtag.client.data.reading.files import read_table, table_files
from fedtag.client.data.text_graph import SPLIT_NAMES, TextGraph
from fedtag.client.site.whole_file import write_whole
from fedtag.common.errors import DataError

COLUMN = "split"
BOM = "\ufeff"


def write_split(folder: Path, graph: TextGraph) -> Path:
    """Add the column `split` to the nodes file, which is replaced whole or not at all; all else in it stays.

    Args:
        folder: whose nodes have no such column.
        graph: what it holds, with the split that was drawn.

    Returns:
        the file.

    Raises:
        DataError: it has the column, or would hold something else afterwards.
    """
    path = next(folder / name for name in table_files("nodes") if (folder / name).is_file())
    before = read_table(path, NODE_COLUMNS, Problems())
    if before is None or COLUMN in before.columns:
        raise DataError(f"{path} has a column {COLUMN} already: change it there.")
    names = [SPLIT_NAMES[code] if code else "" for code in graph.split.tolist()]
    content = WRITERS[path.suffix](path, names)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as made:
        copy = Path(made) / path.name
        copy.write_bytes(content)
        after = read_table(copy, NODE_COLUMNS, Problems())
    same = after is not None and all(after.columns[name].equals(one) for name, one in before.columns.items())
    if after is None or not same or [one or "" for one in after.columns[COLUMN].to_pylist()] != names:
        raise DataError(f"{path} cannot be written without changing it: add the column {COLUMN} by hand.")
    write_whole(path, content, like=path)
    return path


def _csv(path: Path, names: Sequence[str]) -> bytes:
    csv.field_size_limit(sys.maxsize)
    text = path.read_bytes().decode()
    rows = [row for row in csv.reader(io.StringIO(text.removeprefix(BOM), newline=""), strict=True) if row]
    written = io.StringIO(newline="")
    ends = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    csv.writer(written, lineterminator=ends).writerows(
        [*row, name] for row, name in zip(rows, [COLUMN, *names], strict=True)
    )
    return ((BOM if text.startswith(BOM) else "") + written.getvalue()).encode()


def _json_lines(path: Path, names: Sequence[str]) -> bytes:
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    return b"".join(
        line.rstrip().removesuffix(b"}") + f', "{COLUMN}": "{name}"}}\n'.encode()
        for line, name in zip(lines, names, strict=True)
    )


def _parquet(path: Path, names: Sequence[str]) -> bytes:
    column = pa.array([name or None for name in names], pa.string())
    sink = pa.BufferOutputStream()
    parquet.write_table(parquet.read_table(path, partitioning=None).append_column(COLUMN, column), sink)
    return sink.getvalue().to_pybytes()


WRITERS: dict[str, Callable[[Path, Sequence[str]], bytes]] = {
    ".csv": _csv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
