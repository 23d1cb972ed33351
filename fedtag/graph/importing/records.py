"""The records of a delimited text, and the lines on which they begin."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

LONGEST_LINE = 2_000_000
"""Bytes of a record that DuckDB holds."""


@dataclass(frozen=True)
class Dialect:
    """How a delimited text is written.

    Args:
        separator: between fields.
        quote, escape: around fields, and before a quote in one.
        skipped: lines before the header.
        header: whether the first line names the columns.
    """

    separator: str
    quote: str
    escape: str
    skipped: int
    header: bool


def pieces(lines: TextIO) -> Iterator[str]:
    """Lines; one that is too long comes in pieces, each of which is too long."""
    return iter(partial(lines.readline, LONGEST_LINE + 1), "")


@contextmanager
def long_fields() -> Iterator[None]:
    """Fields as long as a record may be are read, whatever others have set in this process."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def starts(path: Path, dialect: Dialect) -> Iterator[tuple[int, int]]:
    """The line on which each record after the header begins, and its fields; none of an empty line."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rest = islice(pieces(lines), dialect.skipped, None)
        records = _numbered(rest, dialect)
        if dialect.header:
            next((record for record in records if record[1]), None)
        for line, fields in records:
            yield dialect.skipped + line, fields


def _numbered(lines: Iterable[str], dialect: Dialect) -> Iterator[tuple[int, int]]:
    """The place of the first line of each record, from 1, and its fields."""
    if len(dialect.separator) > 1:
        for number, line in enumerate(lines, start=1):
            yield number, line.count(dialect.separator) + 1 if line.strip() else 0
        return
    reader, begun = csv.reader(lines, delimiter=dialect.separator, quotechar=dialect.quote), 1
    with long_fields(), suppress(csv.Error):
        for record in reader:
            yield begun, len(record)
            begun = reader.line_num + 1
