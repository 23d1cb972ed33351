"""The rules of the folder contract for single columns: identifiers, labels, splits, weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedtag.client.data.problems import Problems
from fedtag.client.data.tables import Table
from fedtag.client.data.text_graph import NONE, SPLIT_NAMES

# Whole numbers as they are written without padding, so that "007" stays a string.
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"


def identifiers(table: Table, name: str, problems: Problems) -> pa.Array:
    """A column of ids as int64 or large_string, null where there is none (which is reported).

    In CSV, ids are whole numbers if all of the column are.
    """
    column = table.columns[name]
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
        # Beyond 2^53 a float does not tell neighbouring whole numbers apart.
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), float(2**53)))
        bad = ~_mask(pc.fill_null(whole, True))
        problems.add_rows(
            table.file,
            f"{name} is not a whole number or string",
            table.numbers(bad),
            "use whole numbers or strings",
            column.filter(pa.array(bad)).to_pylist(),
        )
        column = pc.if_else(pa.array(bad), pa.scalar(0.0), column).cast(pa.int64())
    elif pa.types.is_large_string(column.type):
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
        if not table.typed and len(column) and pc.all(pc.match_substring_regex(column, WHOLE_NUMBER)).as_py():
            column = column.cast(pa.int64())
    elif not pa.types.is_int64(column.type):
        problems.add(table.file, f"{name} has the type {column.type}", "use whole numbers or strings")
        column = column.cast(pa.large_string(), safe=False) if _castable(column) else _blank(column)
        return column
    problems.add_rows(
        table.file, f"{name} is empty", table.numbers(_mask(column.is_null())), "give every row an id"
    )
    return column


def report_repeated(table: Table, name: str, ids: pa.Array, problems: Problems) -> None:
    """Reports every id that an earlier row has already used."""
    first = pc.index_in(ids, value_set=ids.unique()).to_numpy(zero_copy_only=False)
    _, places = np.unique(first, return_index=True)
    repeated = _mask(ids.is_valid())
    repeated[places] = False
    problems.add_rows(
        table.file,
        f"{name} repeats an id",
        table.numbers(repeated),
        "give every node its own id",
        ids.filter(pa.array(repeated)).to_pylist(),
    )


def positions(ids: pa.Array, references: pa.Array) -> NDArray[np.int64]:
    """Row of each referenced id, -1 where no node has it.

    A whole number and the string that writes it are the same id where the two files differ in type.
    """
    if ids.type != references.type:
        if pa.types.is_int64(ids.type):
            written = pc.match_substring_regex(references, WHOLE_NUMBER)
            null = pa.scalar(None, pa.large_string())
            references = pc.if_else(written, references, null).cast(pa.int64())
        else:
            references = references.cast(pa.large_string())
    found = pc.index_in(references, value_set=ids, skip_nulls=True)
    return pc.fill_null(found, -1).cast(pa.int64()).to_numpy(zero_copy_only=False)


def report_unknown(
    table: Table, name: str, references: pa.Array, rows: NDArray[np.int64], problems: Problems
) -> None:
    """Reports references to ids that no node has."""
    unknown = (rows < 0) & _mask(references.is_valid())
    problems.add_rows(
        table.file,
        f"{name} is not the id of a node",
        table.numbers(unknown),
        "add the node to the nodes file or remove the edge",
        references.filter(pa.array(unknown)).to_pylist(),
    )


def labels(table: Table, classes: Sequence[str], problems: Problems) -> NDArray[np.int64]:
    """Class index of each row, -1 where unlabelled.

    A value that is a class name means that class. A whole number that is no class name is an index,
    unless some class name looks like a whole number: then the two readings could be mistaken for each
    other, and only names are accepted.
    """
    index_of = {name: index for index, name in enumerate(classes)}
    by_name_only = any(_is_whole(name) for name in classes)

    def code(value: str) -> int | None:
        if value in index_of:
            return index_of[value]
        if _is_whole(value) and not by_name_only and 0 <= int(value) < len(classes):
            return int(value)
        return None

    named = ", ".join(classes[:10]) + (", …" if len(classes) > 10 else "")
    remedy = f"use one of the classes of the meta file ({named})"
    remedy += " by name" if by_name_only else f", an index from 0 to {len(classes) - 1}"
    return _coded(table, "label", code, "is not a class", f"{remedy}, or leave it empty", -1, problems)


def splits(table: Table, problems: Problems) -> NDArray[np.int8]:
    """Split of each row; null, empty and "none" mean none."""
    index_of = {name: index for index, name in enumerate(SPLIT_NAMES)}
    remedy = "use train, val, test, or leave it empty"
    return _coded(table, "split", index_of.get, "is not a split", remedy, NONE, problems).astype(np.int8)


def weights(table: Table, problems: Problems) -> NDArray[np.float32]:
    """Finite non-negative weight of each row; 1 where the column is absent."""
    if "weight" not in table.columns:
        return np.ones(len(table), np.float32)
    column = table.columns["weight"]
    if pa.types.is_int64(column.type) or pa.types.is_floating(column.type):
        values = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
    else:
        values = np.array([_number(value) for value in column.to_pylist()], np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        single = values.astype(np.float32)
    bad = ~(np.isfinite(single) & (single >= 0))
    problems.add_rows(
        table.file,
        "weight is not a finite number of at least 0",
        table.numbers(bad),
        "correct it, or remove the weight column to give every edge the weight 1",
        column.filter(pa.array(bad)).to_pylist(),
    )
    return np.where(bad, np.float32(1), single)


def _coded(
    table: Table, name: str, code: Any, what: str, remedy: str, default: int, problems: Problems
) -> NDArray[np.int64]:
    """Looks each distinct value of a column up once."""
    column = table.columns[name]
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = [written(value) for value in encoded.dictionary.to_pylist()]
    codes = [default if value == "" and code("") is None else code(value) for value in texts]
    bad_codes = np.array([value is None for value in codes] + [False])
    table_of_codes = np.array([default if value is None else value for value in codes] + [default], np.int64)
    indices = pc.fill_null(encoded.indices, len(codes)).to_numpy(zero_copy_only=False)
    bad = bad_codes[indices]
    problems.add_rows(
        table.file, f"{name} {what}", table.numbers(bad), remedy, column.filter(pa.array(bad)).to_pylist()
    )
    return table_of_codes[indices]


def written(value: object) -> str:
    """A value as a string: whole floats (a column with gaps) without their fraction, NaN as empty."""
    if isinstance(value, float):
        if value != value:
            return ""
        return str(int(value)) if value.is_integer() else str(value)
    return str(value)


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and (value == "0" or value[0] != "0")


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return np.array(values.to_numpy(zero_copy_only=False), dtype=bool)


def _castable(column: pa.Array) -> bool:
    return pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)


def _blank(column: pa.Array) -> pa.Array:
    return pa.nulls(len(column), pa.large_string())
