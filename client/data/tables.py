"""Tables with their rows numbered: what every format is read as, and what the rules look at.

A record's number is its place after the header, from 1; in JSON lines it is the line's number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedtag.client.data import values
from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.values import Odd, normalised, odd_rows

BLOCK = 4096
"""Rows of which values are held as objects of Python at a time."""


@dataclass(frozen=True)
class Table:
    """Columns of one file: int64, float or large_string where that is what they hold.

    Args:
        file: name of the file, for messages.
        columns: arrays by name, of equal length.
        records: number of each row's record.
        typed: whether the format tells numbers from strings (delimited text does not).
        odd: by column, the rows that hold neither number nor text.
    """

    file: str
    columns: Mapping[str, pa.Array]
    records: NDArray[np.int64]
    typed: bool
    odd: Mapping[str, Odd] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.records)

    def numbers(self, rows: NDArray[np.bool_] | Sequence[int]) -> NDArray[np.int64]:
        """Record numbers of the given rows."""
        chosen = np.asarray(rows)
        return self.records[chosen if chosen.dtype == bool else chosen.astype(np.int64)]

    def missing(self, required: Sequence[str], problems: Problems) -> bool:
        """Whether a required column is absent, which is then reported."""
        absent = [name for name in required if name not in self.columns]
        if absent:
            found = ", ".join(self.columns) or "no columns"
            problems.add(
                self.file, f"column {', '.join(absent)} is missing (found: {shown(found)})", "add it"
            )
        return bool(absent)

    def renamed(self, names: Mapping[str, str]) -> Table:
        """Some of the columns under other names.

        Args:
            names: of columns of this table, by those that they get.
        """
        return replace(
            self,
            columns={ours: self.columns[theirs] for ours, theirs in names.items()},
            odd={ours: self.odd[theirs] for ours, theirs in names.items() if theirs in self.odd},
        )


def cleaned(table: Table, known: Sequence[str], problems: Problems) -> Table:
    """The same with columns of int64, float and text, where that is what they hold.

    Args:
        table: with columns of any type.
        known: columns that must be valid UTF-8 where they are text.
        problems: receives every fault.
    """
    columns = {name: normalised(column) for name, column in table.columns.items()}
    odd = dict(table.odd)
    for name, column in columns.items():
        if pa.types.is_large_binary(column.type):
            columns[name] = _decoded(column, name, table, problems if name in known else None)
        elif rows := odd_rows(column):
            odd[name] = rows
    return replace(table, columns=columns, odd=odd)


def concatenated(file: str, tables: Sequence[Table]) -> Table:
    """Tables that follow one another in a file, as one; a column that one of them lacks is empty there."""
    names = dict.fromkeys(name for table in tables for name in table.columns)
    starts = np.cumsum([0, *map(len, tables)]).tolist()
    columns = {
        name: values.concatenated(
            [table.columns.get(name, pa.nulls(len(table), pa.large_string())) for table in tables]
        )
        for name in names
    }
    odd: dict[str, Odd] = {
        name: {
            start + row: kind
            for start, table in zip(starts, tables, strict=False)
            for row, kind in table.odd.get(name, {}).items()
        }
        for name in names
        if any(table.odd.get(name) for table in tables)
    }
    records = np.concatenate([np.zeros(0, np.int64), *(table.records for table in tables)])
    return Table(file, columns, records, typed=all(table.typed for table in tables), odd=odd)


def repeats(file: str, names: Sequence[str], problems: Problems) -> bool:
    """Whether two columns have one name, which is then reported."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        problems.add(file, f"column {', '.join(repeated)} appears more than once", "keep one")
    return bool(repeated)


def _decoded(column: pa.Array, name: str, table: Table, problems: Problems | None) -> pa.Array:
    """Text of a column; rows that are not UTF-8 are reported and empty. Unknown columns may stay bytes."""
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        if problems is None:
            return column
    texts = column.to_pylist()
    bad = [row for row, text in enumerate(texts) if text is not None and not _is_utf8(text)]
    problems.add_rows(
        table.file, f"{name} is not valid UTF-8", table.records[bad], "save the file in UTF-8 (not Latin-1)"
    )
    for row in bad:
        texts[row] = b""
    return pa.array(texts, pa.large_binary()).cast(pa.large_string())


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
