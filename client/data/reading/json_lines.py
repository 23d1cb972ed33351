"""Files of one JSON object a line as tables."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import BLOCK, Table, concatenated
from fedtag.client.data.values import column_of


def read_jsonl(path: Path, problems: Problems) -> Table:
    """The table of a file with one JSON object a line; lines that are none are reported."""
    with path.open("rb") as lines:
        return concatenated(path.name, list(json_blocks(path.name, lines, problems)))


def json_blocks(name: str, lines: Iterable[bytes], problems: Problems, block: int = BLOCK) -> Iterator[Table]:
    """The tables of every few lines.

    Args:
        name: of the file.
        lines: of the file, from the first.
        problems: receives every fault.
        block: lines at a time.
    """
    numbered = enumerate(lines, start=1)
    while some := list(islice(numbered, block)):
        objects: list[Mapping[str, Any]] = []
        records: list[int] = []
        undecodable: list[int] = []
        malformed: list[int] = []
        for number, line in some:
            raw = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
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
        problems.add_rows(name, "the text is not valid UTF-8", undecodable, "save the file in UTF-8")
        problems.add_rows(name, "the line is not one JSON object", malformed, "write one object a line")
        yield table_of(name, objects, records)


def table_of(name: str, objects: Sequence[Mapping[str, Any]], records: Sequence[int]) -> Table:
    """Objects as rows; a key that one of them lacks is empty there.

    Args:
        name: of the file.
        objects: values of Python by the names of their columns.
        records: number of each of them.
    """
    keys = dict.fromkeys(key for item in objects for key in item)
    made = {key: column_of([item.get(key) for item in objects]) for key in keys}
    columns = {key: column for key, (column, _) in made.items()}
    odd = {key: rows for key, (_, rows) in made.items() if rows}
    return Table(name, columns, np.array(records, np.int64), typed=True, odd=odd)
