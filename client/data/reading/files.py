"""The tables of a data folder by what their files are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedtag.client.data.problems import Problems
from fedtag.client.data.reading.delimited import read_csv
from fedtag.client.data.reading.forms import is_named_rightly
from fedtag.client.data.reading.json_lines import read_jsonl
from fedtag.client.data.reading.parquet_file import read_parquet
from fedtag.client.data.tables import Table, cleaned

READERS = {".parquet": read_parquet, ".csv": read_csv, ".jsonl": read_jsonl}


def table_files(name: str) -> tuple[str, ...]:
    """What a table of a data folder may be called."""
    return tuple(f"{name}{suffix}" for suffix in READERS)


def read_table(path: Path, known: Sequence[str], problems: Problems) -> Table | None:
    """Reads one file; what cannot be read is reported, and None says that nothing could be.

    Args:
        path: a .parquet, .csv or .jsonl file.
        known: columns that must be valid UTF-8 where they are text.
        problems: receives every fault.
    """
    try:
        if not is_named_rightly(path, problems):
            return None
        table = READERS[path.suffix](path, problems)
    except OSError as error:
        problems.add(path.name, f"cannot be read ({error})", "check that the file is whole and readable")
        return None
    return None if table is None else cleaned(table, known, problems)
