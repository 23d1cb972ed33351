"""JSON: an object a line, one array of objects, or a graph as NetworkX and D3 write it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.json_lines import json_blocks, table_of
from fedtag.client.data.tables import BLOCK, Table
from fedtag.graph.importing.source import Source, refused

EDGE_LISTS = ("edges", "links")
"""What a graph in JSON calls its edges."""


def json_tables(path: Path, file: str, found: Sequence[str]) -> list[Source]:
    """The tables of a file of JSON in UTF-8: one, or nodes and edges of a graph.

    Raises:
        DataError: it is no JSON, or holds no table.
    """
    with path.open(encoding="utf-8-sig") as lines:
        first = next((line for line in lines if line.strip()), "")
    if _is_object(first):
        return [_lines(path, file, found)]
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise refused(file, f"is not JSON ({shown(str(error))})", "write one object a line") from error
    if isinstance(content, list):
        return [_objects(content, file, "", "an array of JSON", found)]
    edges = next((content[key] for key in EDGE_LISTS if isinstance(content.get(key), list)), None)
    if not isinstance(content.get("nodes"), list):
        raise refused(
            file, "holds one object, and no nodes", "write one object a line, or a graph with nodes and links"
        )
    form = "a graph in JSON"
    tables = [_objects(content["nodes"], file, "nodes", form, found, bool(content.get("directed")))]
    return [*tables, _objects(edges, file, "edges", form, found)] if edges is not None else tables


def _is_object(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and not isinstance(value.get("nodes"), list)


def _lines(path: Path, file: str, found: Sequence[str]) -> Source:
    def tables(problems: Problems) -> Iterator[Table]:
        with path.open("rb") as lines:
            yield from json_blocks(file, lines, problems)

    keys = dict.fromkeys(key for table in tables(Problems()) for key in table.columns)
    source = _source(file, "", ", ".join(("JSON lines", *found)), tuple(keys), tables)
    # A record has the number of its line.
    return replace(source, lines=list)


def _objects(
    items: Sequence[Any], file: str, name: str, form: str, found: Sequence[str], directed: bool | None = None
) -> Source:
    strange = [row for row, item in enumerate(items, start=1) if not isinstance(item, Mapping)]
    if strange:
        raise refused(file, f"element {strange[0]} of its array is no object", "write one object a row")
    halved = [row for row, item in enumerate(items, start=1) if not _is_encodable(item)]
    if halved:
        raise refused(file, f"element {halved[0]} of its array is not valid UTF-8", "save the file in UTF-8")

    def tables(problems: Problems) -> Iterator[Table]:
        for first in range(0, len(items), BLOCK):
            some = items[first : first + BLOCK]
            yield table_of(file, some, range(first + 1, first + 1 + len(some)))

    keys = dict.fromkeys(key for item in items for key in item)
    return _source(file, name, ", ".join((form, *found)), tuple(keys), tables, directed)


def _is_encodable(item: object) -> bool:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _source(
    file: str, name: str, form: str, columns: tuple[str, ...], tables: Any, directed: bool | None = None
) -> Source:
    def blocks(names: Sequence[str], problems: Problems) -> Iterator[Table]:
        for table in tables(problems):
            lacking = [one for one in names if one not in table.columns]
            empty = table_of(file, [dict.fromkeys(lacking)] * len(table), [0] * len(table))
            columns = {**table.columns, **empty.columns}
            odd = {one: rows for one, rows in table.odd.items() if one in names}
            yield Table(
                file, {one: columns[one] for one in names}, np.asarray(table.records), typed=True, odd=odd
            )

    return Source(file, name, columns, form, blocks, directed)
