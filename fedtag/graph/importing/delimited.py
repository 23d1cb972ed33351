"""Delimited text of any separator, read by DuckDB with every value as it is written."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import duckdb
import numpy as np

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.tables import BLOCK, Table
from fedtag.graph.importing.records import LONGEST_LINE, Dialect, pieces, starts
from fedtag.graph.importing.source import LINE, Source, check_names, named, refused

OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "threads": 1,
}
"""Nothing is downloaded; one thread holds one buffer."""
SEPARATOR_LINE = re.compile(r"\s*\"?sep=(.|\\t)\"?\s*", re.IGNORECASE)
NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?\s*")
LENIENT = (
    "",
    ", strict_mode=false",
    ", strict_mode=false, null_padding=true",
    ", strict_mode=false, ignore_errors=true",
)
"""What is put up with in the search for a dialect, in this order; reading itself is strict."""
NOTHING = "(empty)"
LOOKED_AT = 200
"""Lines in which a separator must divide alike."""
OTHERS = ("\t", "||", "|", ";", "~", "^", "\x1f", "\x01", "::", ":", " ")
"""Separators that are tried where none of the usual ones divides."""
NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", " ": "spaces"}
MOST_COLUMNS = 10_000
TOO_LONG = "longer than 2 MB, or a quote in it is never closed"
FAULTS = {
    "TOO MANY COLUMNS": "the number of fields is not {fields}",
    "MISSING COLUMNS": "the number of fields is not {fields}",
    "UNQUOTED VALUE": "a quote is opened and never closed, or text follows a closing quote",
    "LINE SIZE OVER MAXIMUM": f"the line is {TOO_LONG}",
    "INVALID ENCODING": "the text is not valid UTF-8",
}
REPAIR = "quote fields that contain separators as RFC 4180 says, and write every column"


def delimited_source(path: Path, file: str, found: Sequence[str], separator: str = "") -> Source:
    """A table of delimited text in UTF-8.

    Args:
        path: of the text.
        file: what its owner calls it.
        found: what is known of the file already.
        separator: between fields; found out where it is empty.

    Raises:
        DataError: it is empty, or its columns cannot be told.
    """
    dialect = dialect_of(path, file, separator)
    fields = _first_record(path, dialect)
    columns = named(fields) if dialect.header else tuple(f"column{place}" for place in range(len(fields)))
    check_names(file, columns)
    said = NAMES.get(dialect.separator, repr(dialect.separator))
    notes = [f"separated by {said}", *found]
    if dialect.skipped:
        notes.append(
            f"{dialect.skipped} line{'s' if dialect.skipped > 1 else ''} before the header passed over"
        )
    if not dialect.header:
        notes.append("without a header")

    def blocks(names: Sequence[str], problems: Problems) -> Iterator[Table]:
        chosen = ", ".join(f"c{columns.index(name)}" for name in names)
        first = 1
        with _database().cursor() as connection:
            try:
                rows = connection.sql(_query(path, dialect, len(columns), chosen))
                for batch in rows.to_arrow_reader(BLOCK):
                    arrays = {name: batch.column(place) for place, name in enumerate(names)}
                    numbers = np.arange(first, first + batch.num_rows)
                    yield Table(file, arrays, numbers, typed=False)
                    first += batch.num_rows
                _tell_rejects(connection, path, file, len(columns), dialect, problems)
            except duckdb.Error as error:
                reason = shown(str(error).splitlines()[0])
                raise refused(file, f"is not readable as delimited text ({reason})", REPAIR) from error

    def lines(rows: Sequence[int]) -> list[int]:
        whole = (line for line, fields in starts(path, dialect) if max(fields, 1) == len(columns))
        wanted = set(rows)
        found = {row: line for row, line in enumerate(whole, start=1) if row in wanted}
        return [found[row] for row in rows if row in found]

    return Source(file, "", columns, ", ".join(notes), blocks, lines=lines)


def dialect_of(path: Path, file: str, separator: str = "") -> Dialect:
    """How a text is written, by its first lines.

    Raises:
        DataError: there is no line.
    """
    skipped, stated = _before_header(path)
    separator = separator or stated
    lines = _lines(path, skipped)
    if long := next((place for place, line in enumerate(lines, skipped + 1) if len(line) > LONGEST_LINE), 0):
        raise refused(file, f"line {long} is {TOO_LONG}", REPAIR)
    if not (lines := [line for line in lines if line.strip()]):
        raise refused(file, "the file is empty", "write a header line with the column names")
    if max(lines[0].count(one) for one in NAMES if one != " ") >= MOST_COLUMNS:
        raise refused(
            file, f"has more than {MOST_COLUMNS:,} columns", "keep those of ids, texts, labels and links"
        )
    options = f", delim={_literal(separator)}" if separator else ""
    options += f", skip={skipped}" if skipped else ""
    tried: list[tuple[Dialect, tuple[str, ...]]] = []
    with _database().cursor() as connection:
        for more in LENIENT:
            if found := _sniffed(connection, path, options + more, skipped):
                tried.append(found)
            if found and len(found[1]) > 1:
                break
    several = bool(tried) and len(tried[-1][1]) > 1
    if not several and not separator and (other := _other_separator(lines, '"')):
        return dialect_of(path, file, other)
    if not tried:
        with path.open("rb") as content:
            long = next((place for place, line in enumerate(content, 1) if len(line) > LONGEST_LINE), 0)
        what = f"line {long} is {TOO_LONG}" if long else "is not readable as delimited text"
        raise refused(file, what, REPAIR)
    dialect, _ = tried[-1]
    double = 2 * dialect.separator
    if not separator and _other_separator(lines, dialect.quote, (double,)):
        return dialect_of(path, file, double)
    return dialect


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One of the process, in which nothing lies; a cursor is a connection to it of its own, and costs little."""
    return duckdb.connect(config=OFFLINE)


def _sniffed(
    connection: duckdb.DuckDBPyConnection, path: Path, options: str, skipped: int
) -> tuple[Dialect, tuple[str, ...]] | None:
    """A dialect and the columns that it makes; None where it explains the first line by passing over it."""
    query = (
        "SELECT Delimiter, Quote, Escape, HasHeader, SkipRows, list_transform(Columns, lambda one: one.name) "
        f"FROM sniff_csv({_literal(str(path))}, comment='', sample_size={BLOCK}{options})"
    )
    try:
        separator, quote, escape, header, passed, columns = connection.sql(query).fetchall()[0]
    except duckdb.Error:
        return None
    quote = '"' if quote == NOTHING else quote
    escape = quote if escape == NOTHING else escape
    dialect = Dialect(separator, quote, escape, skipped, header=True)
    first = _first_record(path, dialect)
    if passed not in (0, skipped) or len(first) != len(columns):
        return None
    # A line without a number names columns, also where one of them, as that of an index, has no name.
    names = header or not any(NUMBER.fullmatch(one) for one in first)
    return replace(dialect, header=names), tuple(columns)


def _query(path: Path, dialect: Dialect, columns: int, chosen: str) -> str:
    """Columns are called by their places: names that differ in their case only are one to DuckDB."""
    types = ", ".join(f"c{place}: 'VARCHAR'" for place in range(columns))
    return (
        f"SELECT {chosen} FROM read_csv({_literal(str(path))}, auto_detect=false, "
        f"delim={_literal(dialect.separator)}, quote={_literal(dialect.quote)}, "
        f"escape={_literal(dialect.escape)}, header={str(dialect.header).lower()}, skip={dialect.skipped}, "
        f"columns={{{types}}}, comment='', ignore_errors=true, store_rejects=true)"
    )


def _tell_rejects(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    file: str,
    fields: int,
    dialect: Dialect,
    problems: Problems,
) -> None:
    """Reports rows that are none, by their lines."""
    query = "SELECT DISTINCT error_type::VARCHAR, line FROM reject_errors ORDER BY line"
    if not (rejected := connection.sql(query).fetchall()):
        return
    # DuckDB counts records, empty ones too, as lines.
    begun = [line for line, _ in starts(path, dialect)]
    before = dialect.skipped + dialect.header
    for kind, record in rejected:
        what = FAULTS.get(kind, f"the row is not readable ({kind.lower()})").format(fields=fields)
        place = record - before - 1
        problems.add_rows(file, what, [begun[place] if place < len(begun) else record], REPAIR, unit=LINE)


def _before_header(path: Path) -> tuple[int, str]:
    """How many lines stand before the header: comments, and the line with which a spreadsheet states its separator."""
    skipped, stated = 0, ""
    with path.open(encoding="utf-8-sig") as lines:
        for line in pieces(lines):
            if match := SEPARATOR_LINE.fullmatch(line):
                stated = match[1].replace("\\t", "\t")
            elif not line.startswith("#"):
                break
            skipped += 1
    return skipped, stated


def _lines(path: Path, skipped: int) -> list[str]:
    """The first lines; of one that is too long, its beginning."""
    with path.open(encoding="utf-8-sig") as lines:
        return list(islice(pieces(lines), skipped, skipped + LOOKED_AT))


def _first_record(path: Path, dialect: Dialect) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rest = islice(pieces(lines), dialect.skipped, None)
        filled = (line for line in rest if line.strip())
        if len(dialect.separator) > 1:
            return [
                one.strip(dialect.quote) for one in next(filled, "").rstrip("\r\n").split(dialect.separator)
            ]
        return next(_records(filled, dialect.separator, dialect.quote), [])


def _records(lines: Iterable[str], separator: str, quote: str) -> Iterator[list[str]]:
    """The fields of each record, up to one with a field that is longer than Python reads, as no header has one."""
    try:
        yield from csv.reader(lines, delimiter=separator, quotechar=quote)
    except csv.Error:
        return


def _other_separator(lines: Sequence[str], quote: str, tried: Sequence[str] = OTHERS) -> str:
    """What divides every line into as many fields, more than one; empty where nothing does."""
    for one in tried:
        if len(one) == 1:
            # The last record may go on behind the lines that were looked at.
            records = [len(record) - 1 for record in _records(lines, one, quote) if record]
            counts = set(records[:-1] if len(lines) == LOOKED_AT else records)
        else:
            counts = {line.rstrip("\r\n").strip(quote).count(one) for line in lines}
        if len(counts) == 1 and counts != {0}:
            return one
    return ""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
