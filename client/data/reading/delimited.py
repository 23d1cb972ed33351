"""Delimited text as tables, every value as it is written."""

from __future__ import annotations

import codecs
import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.forms import THROUGH_IMPORT
from fedtag.client.data.tables import Table, repeats

SENTINEL = b"\x00"
LARGEST_BLOCK = 2**30
OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SEPARATOR_LINE = re.compile(rb"\s*\"?sep=.\"?\s*", re.IGNORECASE)


def read_csv(path: Path, problems: Problems) -> Table | None:
    """The table of a file with commas in UTF-8; another form is named, not read. None where nothing can be."""
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    first = first_line(content)
    told = len(problems.found)
    if SEPARATOR_LINE.fullmatch(first):
        problems.add(
            path.name, f"the first line is {shown(first.decode().strip())}", f"remove it, or {THROUGH_IMPORT}"
        )
    elif first.startswith(b"#"):
        problems.add(path.name, "the first line is a comment (#)", f"remove it, or {THROUGH_IMPORT}")
    elif (separator := _other_separator(first)) is not None:
        what = f"is separated by {OTHER_SEPARATORS[separator]}, not by commas"
        problems.add(path.name, what, f"save it with commas, or {THROUGH_IMPORT}")
    return None if len(problems.found) > told else _parsed(path.name, content, problems)


def first_line(content: bytes) -> bytes:
    """The first line of a text that is not blank."""
    return re.split(rb"[\r\n]", content[:LARGEST_BLOCK].lstrip(b"\r\n"), maxsplit=1)[0]


def _parsed(name: str, content: bytes, problems: Problems) -> Table | None:
    """The table of a text that begins with the names of its columns; None where nothing can be read."""
    try:
        header = next(csv.reader([first_line(content).decode()]), [])
    except (UnicodeDecodeError, csv.Error):
        problems.add(name, "the header is not CSV in UTF-8", f"save the file so, or {THROUGH_IMPORT}")
        return None
    if not header:
        problems.add(name, "the file is empty", "write a header line with the column names")
        return None
    if repeats(name, header, problems):
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
        problems.add(name, f"is not readable as CSV ({shown(str(error))})", "quote fields as RFC 4180 says")
        return None
    columns = {one: parsed.column(one).combine_chunks() for one in header}
    closed = parsed.num_rows > 0 and all(column[-1].as_py() == SENTINEL for column in columns.values())
    if closed:
        columns = {one: column[:-1] for one, column in columns.items()}
    rows = parsed.num_rows - closed
    bad = np.array([row.number - 1 for row in skipped], np.int64)
    records = np.setdiff1d(np.arange(1, rows + len(bad) + 1), bad)[:rows]
    problems.add_rows(
        name,
        f"the number of fields is not {len(header)}",
        bad,
        "quote fields that contain commas, and write every column",
        [f"{row.actual_columns} fields" for row in skipped],
    )
    if not closed:
        last = rows + len(bad)
        problems.add_rows(name, "a quote is opened and never closed", [last], "close the quote or double it")
    return Table(name, columns, records, typed=False)


def _other_separator(header: bytes) -> str | None:
    """What divides a header into more columns than commas do; None where nothing does."""
    counts = {one: header.count(one.encode()) for one in OTHER_SEPARATORS}
    separator = max(counts, key=lambda one: counts[one])
    return separator if counts[separator] > header.count(b",") else None
