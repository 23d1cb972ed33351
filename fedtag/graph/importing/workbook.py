"""Sheets of workbooks: Excel's, old and new, and OpenDocument's."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook

from fedtag.graph.importing.source import Source, named, refused, source_of_rows


def sheets(path: Path, file: str) -> list[Source]:
    """The sheets that hold something, as tables whose first row names the columns.

    Raises:
        DataError: it cannot be read.
    """
    try:
        book = CalamineWorkbook.from_path(str(path))
        filled = [sheet for name in book.sheet_names if (sheet := book.get_sheet_by_name(name)).height]
    except CalamineError as error:
        raise refused(file, f"is not a readable workbook ({error})", "save it as CSV") from error
    if not filled:
        raise refused(file, "no sheet holds anything", "check that it is the right file")
    return [_source(sheet, file) for sheet in filled]


def _source(sheet: CalamineSheet, file: str) -> Source:
    header = named(next(_rows(sheet), []))
    form = f"sheet {sheet.name} of a workbook"
    # What stands in no named column at the right of the header is kept out.
    return source_of_rows(file, sheet.name, form, header, lambda: _body(sheet))


def _body(sheet: CalamineSheet) -> Iterator[list[Any]]:
    rows = _rows(sheet)
    next(rows, None)
    return rows


def _rows(sheet: CalamineSheet) -> Iterator[list[Any]]:
    """Rows that hold something; blank cells are None, times are as they are written."""
    for row in sheet.iter_rows():
        values = [None if cell == "" else _plain(cell) for cell in row]
        if any(value is not None for value in values):
            yield values


def _plain(cell: Any) -> Any:
    if isinstance(cell, timedelta):
        return str(cell)
    return cell.isoformat() if hasattr(cell, "isoformat") else cell
