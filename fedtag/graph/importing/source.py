"""A table of somebody's file, read in blocks and as often as it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import BLOCK, Table, cleaned, concatenated, repeats
from fedtag.client.data.values import column_of
from fedtag.common.errors import DataError

Blocks = Callable[[Sequence[str], Problems], Iterator[Table]]
Lines = Callable[[Sequence[int]], Sequence[int]]
LINE = "line"
"""What a row is called where its number is that of a line."""
WIDEST = 1000
"""Columns among which those that nobody named are looked for."""


@dataclass(frozen=True)
class Source:
    """A table before anything is read of it but the names of its columns.

    Args:
        file: what messages call it.
        name: of the table in its file, as a sheet has one; empty where the file is the table.
        columns: their names.
        form: what was found out about the file, for its owner.
        blocks: yields the named columns of every few rows.
        directed: whether its edges have one direction; None where the form does not say.
        lines: of the file, on which rows of these numbers begin; None where it is no text.
    """

    file: str
    name: str
    columns: tuple[str, ...]
    form: str
    blocks: Blocks
    directed: bool | None = None
    lines: Lines | None = None

    def read(self, names: Sequence[str], problems: Problems) -> Iterator[Table]:
        """Some of the columns, block by block, ready for the rules of the contract."""
        wanted = list(dict.fromkeys(names))
        for block in self.blocks(wanted, problems):
            yield cleaned(block, wanted, problems)

    def table(self, names: Sequence[str], problems: Problems) -> Table:
        """Some of the columns, all rows."""
        return self._together(names, self.read(names, problems))

    @property
    def first_columns(self) -> tuple[str, ...]:
        """Up to `WIDEST` of the columns."""
        return self.columns[:WIDEST]

    def sample(self, named: Sequence[str] = ()) -> Table:
        """The first columns, and named ones, of the first `BLOCK` rows, by which columns are told apart.

        What is wrong with them is told when they are read.
        """
        names = tuple(dict.fromkeys((*self.first_columns, *named)))
        return self._together(names, islice(self.read(names, Problems()), 1))

    def _together(self, names: Sequence[str], blocks: Iterable[Table]) -> Table:
        table = concatenated(self.file, list(blocks))
        return (
            table
            if len(table)
            else replace(table, columns=dict.fromkeys(names, pa.nulls(0, pa.large_string())))
        )


def source_of_rows(
    file: str, name: str, form: str, columns: Sequence[str], rows: Callable[[], Iterable[Sequence[Any]]]
) -> Source:
    """A table whose rows are values of Python.

    Args:
        file, name, form: as of `Source`.
        columns: their names, in the order of the values.
        rows: begins anew at each call.

    Raises:
        DataError: two columns have one name.
    """
    check_names(file, columns)

    def blocks(names: Sequence[str], problems: Problems) -> Iterator[Table]:
        every = iter(rows())
        first = 1
        places = {one: columns.index(one) for one in names}
        while some := list(islice(every, BLOCK)):
            made = {
                one: column_of([row[place] if place < len(row) else None for row in some])
                for one, place in places.items()
            }
            arrays = {one: column for one, (column, _) in made.items()}
            odd = {one: strange for one, (_, strange) in made.items() if strange}
            yield Table(file, arrays, np.arange(first, first + len(some)), typed=True, odd=odd)
            first += len(some)

    return Source(file, name, tuple(columns), form, blocks)


def check_names(file: str, columns: Sequence[str]) -> None:
    """Raise `DataError` where two columns have one name."""
    problems = Problems()
    repeats(file, columns, problems)
    problems.raise_any()


def named(header: Iterable[object]) -> tuple[str, ...]:
    """Names of columns; one without a name is called by its place."""
    return tuple(
        text if (text := str(name if name is not None else "").strip()) else f"column{place}"
        for place, name in enumerate(header)
    )


def refused(file: str, what: str, remedy: str) -> DataError:
    """What is raised of a file that cannot be read."""
    problems = Problems()
    problems.add(file, what, remedy)
    return DataError(problems.sentences)
