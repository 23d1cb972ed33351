"""Tables as they lie on disk: Parquet, CSV and JSON lines, read without losing a row.

A record's number is its place after the header, from 1; in JSON lines it is the line's number.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from fedtag.client.data.problems import Problems, shown

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SENTINEL = b"\x00"
LARGEST_BLOCK = 2**30


@dataclass(frozen=True)
class Table:
    """Columns of one file: int64, float64 or large_string where that is what they hold.

    Args:
        file: name of the file, for messages.
        columns: arrays by name, of equal length.
        records: number of each row's record.
        typed: whether the format tells numbers from strings (CSV does not).
    """

    file: str
    columns: Mapping[str, pa.Array]
    records: NDArray[np.int64]
    typed: bool

    def __len__(self) -> int:
        return len(self.records)

    def numbers(self, rows: NDArray[np.bool_] | Sequence[int]) -> NDArray[np.int64]:
        """Record numbers of the given rows."""
        return self.records[np.asarray(rows, dtype=bool if len(rows) == len(self) else np.int64)]

    def missing(self, required: Sequence[str], problems: Problems) -> bool:
        """Whether a required column is absent, which is then reported."""
        absent = [name for name in required if name not in self.columns]
        if absent:
            found = ", ".join(self.columns) or "no columns"
            problems.add(
                self.file, f"column {', '.join(absent)} is missing (found: {shown(found)})", "add it"
            )
        return bool(absent)


def read_table(path: Path, known: Sequence[str], problems: Problems) -> Table | None:
    """Reads one file; what cannot be read is reported, and None says that nothing could be.

    Args:
        path: a .parquet, .csv or .jsonl file.
        known: columns that must be valid UTF-8 where they are text.
        problems: receives every fault.
    """
    reader = {".parquet": _read_parquet, ".csv": _read_csv, ".jsonl": _read_jsonl}[path.suffix]
    try:
        table = reader(path, problems)
    except OSError as error:
        problems.add(path.name, f"cannot be read ({error})", "check that the file is whole and readable")
        return None
    return None if table is None else cleaned(table, known, problems)


def cleaned(table: Table, known: Sequence[str], problems: Problems) -> Table:
    """The same with columns of int64, float64 and text, where that is what they hold.

    Args:
        table: with columns of any type.
        known: columns that must be valid UTF-8 where they are text.
        problems: receives every fault.
    """
    columns = {name: _normalised(column) for name, column in table.columns.items()}
    for name, column in columns.items():
        if pa.types.is_large_binary(column.type):
            columns[name] = _decoded(column, name, table, problems if name in known else None)
    return Table(table.file, columns, table.records, table.typed)


def _read_parquet(path: Path, problems: Problems) -> Table | None:
    try:
        with parquet.ParquetFile(path) as file:
            content = file.read()
    except pa.ArrowException as error:
        problems.add(path.name, f"is not a readable Parquet file ({shown(str(error))})", "write it again")
        return None
    if _repeats(path.name, content.column_names, problems):
        return None
    columns = {name: content.column(name) for name in content.column_names}
    return Table(path.name, columns, np.arange(1, content.num_rows + 1), typed=True)


def _read_csv(path: Path, problems: Problems) -> Table | None:
    content = path.read_bytes().removeprefix(BYTE_ORDER_MARK)
    first_line = re.split(rb"[\r\n]", content.lstrip(b"\r\n"), maxsplit=1)[0]
    try:
        header = next(csv.reader([first_line.decode()]), [])
    except (UnicodeDecodeError, csv.Error):
        problems.add(path.name, "the header is not CSV in UTF-8", "save the file so")
        return None
    if not header:
        problems.add(path.name, "the file is empty", "write a header line with the column names")
        return None
    if _repeats(path.name, header, problems):
        return None
    # An open quote swallows everything behind it, so a last record of our own tells whether one is open.
    content += b"\n" + b",".join([SENTINEL] * len(header)) + b"\n"
    skipped: list[Any] = []

    def skip(row: Any) -> str:
        skipped.append(row)
        return "skip"

    try:
        parsed = arrow_csv.read_csv(
            io.BytesIO(content),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=min(len(content), LARGEST_BLOCK)
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(header, pa.large_binary()),
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        problems.add(
            path.name, f"is not readable as CSV ({shown(str(error))})", "quote fields as RFC 4180 says"
        )
        return None
    columns = {name: parsed.column(name).combine_chunks() for name in header}
    closed = parsed.num_rows > 0 and all(column[-1].as_py() == SENTINEL for column in columns.values())
    if closed:
        columns = {name: column[:-1] for name, column in columns.items()}
    rows = parsed.num_rows - closed
    bad = np.array([row.number - 1 for row in skipped], np.int64)
    records = np.setdiff1d(np.arange(1, rows + len(bad) + 1), bad)[:rows]
    problems.add_rows(
        path.name,
        f"the number of fields is not {len(header)}",
        bad,
        "quote fields that contain a comma, and write every column",
        [f"{row.actual_columns} fields" for row in skipped],
    )
    if not closed:
        last = rows + len(bad)
        problems.add_rows(
            path.name, "a quote is opened and never closed", [last], "close the quote or double it"
        )
    return Table(path.name, columns, records, typed=False)


def _read_jsonl(path: Path, problems: Problems) -> Table | None:
    objects: list[dict[str, Any]] = []
    records: list[int] = []
    undecodable: list[int] = []
    malformed: list[int] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            raw = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if not raw.strip():
                continue
            try:
                value = json.loads(raw.decode())
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeError:
                undecodable.append(number)
            except (ValueError, RecursionError):
                malformed.append(number)
            else:
                if isinstance(value, dict):
                    objects.append(value)
                    records.append(number)
                else:
                    malformed.append(number)
    problems.add_rows(path.name, "the text is not valid UTF-8", undecodable, "save the file in UTF-8")
    problems.add_rows(path.name, "the line is not one JSON object", malformed, "write one object a line")
    names = list(dict.fromkeys(name for item in objects for name in item))
    columns = {name: _json_column([item.get(name) for item in objects]) for name in names}
    return Table(path.name, columns, np.array(records, np.int64), typed=True)


def _json_column(values: list[Any]) -> pa.Array:
    """An array of one type; values of several types become strings, numbers as they are written."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pa.array(values, pa.large_string())
    if kinds <= {int, float} and all(value is None or abs(value) < 2**63 for value in values):
        return pa.array(values, pa.int64() if kinds == {int} else pa.float64())
    return pa.array(
        [value if value is None or isinstance(value, str) else json.dumps(value) for value in values],
        pa.large_string(),
    )


def _repeats(file: str, names: Sequence[str], problems: Problems) -> bool:
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        problems.add(file, f"column {', '.join(repeated)} appears more than once", "keep one")
    return bool(repeated)


def _normalised(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array of int64, float64 or, where it is text, bytes; of any other type as it is."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
    if pa.types.is_null(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_integer(kind):
        with contextlib.suppress(
            pa.ArrowInvalid
        ):  # beyond int64 the type stays, and is named where it matters
            column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    elif any(is_text(kind) for is_text in texts):
        # Parquet does not promise valid UTF-8; as bytes it can be looked at without an exception.
        column = column.cast(pa.large_binary())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _decoded(column: pa.Array, name: str, table: Table, problems: Problems | None) -> pa.Array:
    """Text of a column; rows that are not UTF-8 are reported and empty. Unknown columns may stay bytes."""
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        if problems is None:
            return column
    values = column.to_pylist()
    bad = [row for row, value in enumerate(values) if value is not None and not _is_utf8(value)]
    problems.add_rows(
        table.file, f"{name} is not valid UTF-8", table.records[bad], "save the file in UTF-8 (not Latin-1)"
    )
    for row in bad:
        values[row] = b""
    return pa.array(values, pa.large_binary()).cast(pa.large_string())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
