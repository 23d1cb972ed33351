"""Tables and views of an SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from fedtag.client.data.tables import BLOCK
from fedtag.graph.importing.source import Source, refused, source_of_rows

LISTED = (
    "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
    "ORDER BY name"
)


def stored_tables(path: Path, file: str) -> list[Source]:
    """The tables and views of a database, which is opened to be read only.

    Raises:
        DataError: it cannot be read, or holds no table.
    """
    try:
        with closing(_connection(path)) as connection:
            listed = connection.execute(LISTED).fetchall()
            columns = {name: _columns(connection, name, kind) for name, kind in listed}
    except sqlite3.Error as error:
        what, remedy = (
            f"is not a readable SQLite database ({error})",
            "close what writes to it, or copy it again",
        )
        raise refused(file, what, remedy) from error
    names = [name for name, found in columns.items() if found]
    if not names:
        raise refused(file, "holds no table", "check that it is the right file")
    return [
        source_of_rows(
            file, name, f"table {name} of an SQLite database", columns[name], _Rows(path, file, name)
        )
        for name in names
    ]


class _Rows:
    """The rows of a table, from the first at each call."""

    def __init__(self, path: Path, file: str, table: str) -> None:
        self._path, self._file, self._table = path, file, table

    def __call__(self) -> Iterator[tuple[Any, ...]]:
        try:
            with closing(_connection(self._path)) as connection:
                found = connection.execute(f"SELECT * FROM {_quoted(self._table)}")
                while some := found.fetchmany(BLOCK):
                    yield from some
        except sqlite3.Error as error:
            what = f"table {self._table} is not readable ({error})"
            raise refused(self._file, what, "mend it, or copy the database again") from error


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _columns(connection: sqlite3.Connection, table: str, kind: str) -> tuple[str, ...]:
    """Names of columns; none of a view whose tables are gone."""
    try:
        found = connection.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0").description
    except sqlite3.OperationalError:
        if kind != "view":
            raise
        return ()
    return tuple(column[0] for column in found)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
