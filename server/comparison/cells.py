"""Cells and tables as Markdown and CSV, whatever stands in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from fedtag.server.comparison.statistics import Spread

NOTHING = "–"
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell starts that a spreadsheet computes."""


def markdown_table(headings: Sequence[str], cells: Iterable[Sequence[str]], numeric: bool = True) -> str:
    """A table whose columns, after the first, are aligned to the right if they are numbers."""
    marks = ["---", *(("---:" if numeric else "---") for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(entries)} |" for entries in [headings, marks, *cells])


def percents(found: Spread | None) -> str:
    """Mean ± standard deviation of fractions, as percentages."""
    if found is None:
        return NOTHING
    return f"{100 * found.mean:.2f}" + ("" if found.std is None else f" ± {100 * found.std:.2f}")


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, object]]) -> str:
    """CSV with a heading; numbers in their shortest exact form, nothing for what is missing.

    Text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: as_text(value) for key, value in record.items()} for record in records)
    return buffer.getvalue()


def as_text(value: object) -> object:
    """A value that no spreadsheet computes."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
