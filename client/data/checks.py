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
from fedtag.client.data.values import EXACT, composed, normal, whole_numbers, written

NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"
"""A string that writes a whole number of int64."""
LARGEST_WEIGHT_SUM = 1e30
"""Of the edges at a node: sums of features (up to 1e6) times weights then stay within float32."""


def identifiers(table: Table, name: str, problems: Problems) -> pa.Array:
    """A column of ids as int64 or large_string, null where there is none (which is reported).

    Whole numbers in any type are numbers, and so are those of delimited text if all of the column are; beyond int64
    they are text with all digits. Text is an id as it stands.
    """
    column = table.columns[name]
    if odd_told(table, name, "use whole numbers or strings", problems):
        return pa.nulls(len(table), pa.large_string())
    text = pa.types.is_large_string(column.type)
    if text and table.typed:
        whole = None
    elif text or pa.types.is_int64(column.type) or pa.types.is_floating(column.type):
        whole = whole_numbers(column) if len(column) else None
    elif pa.types.is_decimal(column.type):
        whole = None
    else:
        problems.add(table.file, f"{name} has the type {column.type}", "use whole numbers or strings")
        return pa.nulls(len(table), pa.large_string())
    if whole is not None:
        column = whole
    elif text:
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.large_string()), column)
    else:
        column = _told_fractions(table, name, column, problems)
    problems.add_rows(
        table.file, f"{name} is empty", table.numbers(_mask(column.is_null())), "give every row an id"
    )
    return column


def odd_told(table: Table, name: str, remedy: str, problems: Problems) -> bool:
    """Whether a column holds lists, objects, truth values or bytes, which are then reported."""
    odd = table.odd.get(name, {})
    for kind in dict.fromkeys(odd.values()):
        rows = [row for row, one in odd.items() if one == kind]
        problems.add_rows(table.file, f"{name} is {kind}", table.numbers(rows), remedy)
    return bool(odd)


def _told_fractions(table: Table, name: str, column: pa.Array, problems: Problems) -> pa.Array:
    """Numbers as int64, 0 for those that are not whole or too large to be exact, which are reported."""
    values = column.to_pylist()
    exact = EXACT.get(str(column.type), float("inf"))
    missing = np.array([value is None or value != value for value in values], bool)
    bad = np.array(
        [
            value is not None and value == value and (value % 1 != 0 or abs(value) >= exact)
            for value in values
        ],
        bool,
    )
    problems.add_rows(
        table.file,
        f"{name} is not a whole number or string",
        table.numbers(bad),
        f"use whole numbers or strings; a float tells whole numbers apart up to {exact:,.0f}",
        [value for value, at_fault in zip(values, bad, strict=True) if at_fault],
    )
    whole = [
        0 if at_fault else None if gone else int(value)
        for value, at_fault, gone in zip(values, bad, missing, strict=True)
    ]
    return pa.array(whole, pa.int64())


def report_repeated(table: Table, name: str, ids: pa.Array, problems: Problems) -> None:
    """Reports every id that an earlier row has already used, in whatever normal form."""
    known = composed(ids)
    if len(known.drop_null().unique()) == len(known) - known.null_count:
        return
    first = pc.index_in(known, value_set=known.unique()).to_numpy(zero_copy_only=False)
    _, places, inverse = np.unique(first, return_index=True, return_inverse=True)
    repeated = _mask(ids.is_valid())
    repeated[places] = False
    same = _mask(pc.fill_null(pc.equal(ids, ids.take(pa.array(places[inverse]))), True))
    problems.add_rows(
        table.file,
        f"{name} repeats an id",
        table.numbers(repeated & same),
        "give every node its own id",
        ids.filter(pa.array(repeated & same)).to_pylist(),
    )
    problems.add_rows(
        table.file,
        f"{name} looks like an id before and differs in its Unicode normal form (NFC) only",
        table.numbers(repeated & ~same),
        "give every node its own id",
        [ascii(value) for value in ids.filter(pa.array(repeated & ~same)).to_pylist()],
    )


def positions(ids: pa.Array, references: pa.Array) -> NDArray[np.int64]:
    """Row of each referenced id, -1 where no node has it.

    A whole number and the string that writes it are the same id where the two files differ in type; text is compared
    in normal form C.
    """
    if ids.type != references.type:
        if pa.types.is_int64(ids.type):
            written = pc.match_substring_regex(references, NUMBER)
            null = pa.scalar(None, pa.large_string())
            references = pc.if_else(written, references, null).cast(pa.int64())
        else:
            references = references.cast(pa.large_string())
    found = pc.index_in(composed(references), value_set=composed(ids), skip_nulls=True)
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
        "add the node or remove the edge",
        references.filter(pa.array(unknown)).to_pylist(),
    )


def texts(table: Table, problems: Problems) -> tuple[str, ...]:
    """The text of each row; null, NaN and white space are empty, numbers are as they are written."""
    return tuple(text_column(table, problems).to_pylist())


def text_column(table: Table, problems: Problems) -> pa.Array:
    """The same as a column of large_string without nulls."""
    blank = pa.scalar("", pa.large_string())
    column = table.columns["text"]
    kind = column.type
    if odd_told(table, "text", "write one string, or null", problems):
        return pa.repeat(blank, len(table))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = pa.array(
            [None if value is None else written(value) for value in column.to_pylist()], pa.large_string()
        )
    elif pa.types.is_int64(kind):
        column = column.cast(pa.large_string())
    elif not pa.types.is_large_string(kind):
        problems.add(table.file, f"text has the type {kind}", "write strings")
        return pa.repeat(blank, len(table))
    return pc.if_else(pc.fill_null(pc.utf8_is_space(column), True), blank, pc.fill_null(column, ""))


def labels(table: Table, classes: Sequence[str], problems: Problems) -> NDArray[np.int64]:
    """Class index of each row, -1 where unlabelled.

    A value that is a class name means that class. A whole number that is no class name is an index,
    unless some class name looks like a whole number: then the two readings could be mistaken for each
    other, and only names are accepted.
    """
    index_of = {normal(name): index for index, name in enumerate(classes)}
    by_name_only = any(_is_whole(name) for name in classes)

    def code(value: str) -> int | None:
        value = normal(value)
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


def report_heavy(
    table: Table, ends: Sequence[NDArray[np.int64]], weights: NDArray[np.float32], problems: Problems
) -> None:
    """Reports edges at nodes whose weights sum to more than `LARGEST_WEIGHT_SUM`.

    Args:
        table: of the edges.
        ends: rows of nodes at one or both ends, -1 where an end is unknown.
        weights: of the edges.
        problems: receives the fault.
    """
    if not len(weights) or float(weights.sum(dtype=np.float64)) <= LARGEST_WEIGHT_SUM:
        return
    sums = np.zeros(max(int(end.max()) for end in ends) + 2)
    for end in ends:
        np.add.at(sums, end, weights.astype(np.float64))
    sums[-1] = 0
    heavy = np.any([sums[end] > LARGEST_WEIGHT_SUM for end in ends], axis=0) & (weights > 1)
    problems.add_rows(
        table.file,
        f"the weights at a node sum to more than {LARGEST_WEIGHT_SUM:g}",
        table.numbers(heavy),
        f"scale all weights down, for example to at most {LARGEST_WEIGHT_SUM / len(weights):.0e}",
        weights[heavy].tolist(),
    )


def _coded(
    table: Table, name: str, code: Any, what: str, remedy: str, default: int, problems: Problems
) -> NDArray[np.int64]:
    """Looks each distinct value of a column up once."""
    column = table.columns[name]
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = [written(value) for value in encoded.dictionary.to_pylist()]
    whole = whole_numbers(encoded.dictionary)
    numbers = texts if whole is None else ["" if value is None else str(value) for value in whole.to_pylist()]
    codes = [
        _first(code(text), code(number), default if text == "" else None)
        for text, number in zip(texts, numbers, strict=True)
    ]
    bad_codes = np.array([value is None for value in codes] + [False])
    table_of_codes = np.array([default if value is None else value for value in codes] + [default], np.int64)
    indices = pc.fill_null(encoded.indices, len(codes)).to_numpy(zero_copy_only=False)
    bad = bad_codes[indices]
    problems.add_rows(
        table.file, f"{name} {what}", table.numbers(bad), remedy, column.filter(pa.array(bad)).to_pylist()
    )
    return table_of_codes[indices]


def _first(*codes: int | None) -> int | None:
    return next((code for code in codes if code is not None), None)


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and (value == "0" or value[0] != "0")


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return np.array(values.to_numpy(zero_copy_only=False), dtype=bool)
