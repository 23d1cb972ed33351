"""Values of Python as columns, and any column as one of whole numbers, fractions or text: the types that rules know."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

WHOLE = r"^(0|-?[1-9][0-9]*)(\.0+)?$"
"""Whole numbers as they are written without padding, so that "007" stays a string; pandas writes 52 as 52.0."""
EXACT = {"float": 2.0**24, "double": 2.0**53}
"""From here on a float of that type does not tell neighbouring whole numbers apart."""
LIST, OBJECT, TRUTH, BYTES = "a list", "an object", "true or false", "bytes"

Odd = Mapping[int, str]
"""What a row holds in place of a number or text: a list, an object, true or false, bytes."""


def column_of(values: Sequence[object]) -> tuple[pa.Array, Odd]:
    """Values as one column: of numbers where all are, otherwise of text, numbers as they are written.

    Args:
        values: None is missing; so is NaN.

    Returns:
        int64, float64 or large_string, and the rows that hold neither number nor text, whose text is JSON.
    """
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {str}:
        return pa.array(values, pa.large_string()), {}
    if kinds <= {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):  # type: ignore[operator]
        return pa.array(values, pa.int64()), {}
    if kinds <= {int, float} and all(_is_float(value) for value in values):
        return pa.array(values, pa.float64()), {}
    odd = {row: kind for row, value in enumerate(values) if (kind := _odd(value))}
    texts = [
        json.dumps(value, default=str) if row in odd else written(value) for row, value in enumerate(values)
    ]
    missing = [value is None or value != value for value in map(_comparable, values)]
    return pa.array(texts, pa.large_string(), mask=pa.array(missing).to_numpy(zero_copy_only=False)), odd


def written(value: object) -> str:
    """A value as a string: whole floats (a column with gaps) without their fraction, NaN as empty."""
    if isinstance(value, float):
        if value != value:
            return ""
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, Decimal):
        return str(int(value)) if value == value.to_integral_value() else str(value)
    return str(value)


def normalised(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array: int64, float or, where it is text, bytes; of any other type as it is.

    Whole numbers beyond int64 become text with all their digits.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary)
    if pa.types.is_null(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_integer(kind):
        column = _whole(column, column)
    elif pa.types.is_decimal(kind):
        whole = pc.round(column)
        if pc.all(pc.fill_null(pc.equal(whole, column), True)).as_py():
            column = _whole(column, whole)
    elif pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    elif any(is_text(kind) for is_text in texts):
        # Parquet does not promise valid UTF-8; as bytes it can be looked at without an exception.
        column = column.cast(pa.large_binary())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def odd_rows(column: pa.Array) -> Odd:
    """The rows of a column of lists, objects, truth values or bytes, which no rule reads."""
    kinds = {
        LIST: (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
        OBJECT: (pa.types.is_struct, pa.types.is_map),
        TRUTH: (pa.types.is_boolean,),
        BYTES: (pa.types.is_fixed_size_binary,),
    }
    for name, tests in kinds.items():
        if any(test(column.type) for test in tests):
            return dict.fromkeys(pc.indices_nonzero(column.is_valid()).to_pylist(), name)
    return {}


def whole_numbers(column: pa.Array) -> pa.Array | None:
    """A column of whole numbers, however they are written; None where some value is none.

    Args:
        column: int64, float or large_string; empty text and NaN are missing.

    Returns:
        int64, or large_string with all digits where one is beyond that.
    """
    kind = column.type
    if pa.types.is_int64(kind):
        return column
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
        whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), EXACT[str(kind)]))
        return column.cast(pa.int64()) if pc.all(pc.fill_null(whole, True)).as_py() else None
    if not pa.types.is_large_string(kind):
        return None
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, kind), column)
    if not pc.all(pc.fill_null(pc.match_substring_regex(column, WHOLE), True)).as_py():
        return None
    return _whole(column, pc.replace_substring_regex(column, r"\.0+$", ""))


def concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    """Parts of one column as one array: of their type where they share one, otherwise of text, as it is written.

    Whole numbers and fractions are fractions where these are exact. It is what `column_of` makes of all values at once.
    """
    kinds = {part.type for part in parts if part.null_count < len(part)}
    if kinds == {pa.int64(), pa.float64()}:
        try:
            return pa.concat_arrays([part.cast(pa.float64()) for part in parts])
        except pa.ArrowInvalid:
            pass
    if len(kinds) > 1:
        return pa.concat_arrays([_as_text(part) for part in parts])
    kind = kinds.pop() if kinds else pa.large_string()
    return pa.concat_arrays([part if part.type == kind else pa.nulls(len(part), kind) for part in parts])


def normal(text: str) -> str:
    """A text in normal form C, in which what looks alike is alike."""
    return unicodedata.normalize("NFC", text)


def composed(column: pa.Array) -> pa.Array:
    """Text in normal form C, in which what looks alike is alike; other columns as they are."""
    return pc.utf8_normalize(column, "NFC") if pa.types.is_large_string(column.type) else column


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_large_string(column.type):
        return column
    texts = [None if value is None or value != value else written(value) for value in column.to_pylist()]
    return pa.array(texts, pa.large_string())


def _whole(column: pa.Array, whole: pa.Array) -> pa.Array:
    try:
        return whole.cast(pa.int64())
    except pa.ArrowInvalid:
        if pa.types.is_decimal(column.type):
            return pa.array([None if value is None else str(int(value)) for value in column.to_pylist()])
        return whole.cast(pa.large_string())


def _is_float(value: object) -> bool:
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)


def _odd(value: object) -> str | None:
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, bytes | bytearray):
        return BYTES
    if isinstance(value, Mapping):
        return OBJECT
    listed = isinstance(value, Sequence | set) and not isinstance(value, str)
    return LIST if listed or getattr(value, "ndim", False) else None


def _comparable(value: object) -> object:
    return value if isinstance(value, float | Decimal) else (None if value is None else "")
