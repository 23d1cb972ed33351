"""Tensors from elsewhere: the table in front of them is checked before any of them is made."""

from __future__ import annotations

import math
import struct
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.wire.bounded_json import read
from fedtag.common.wire.limits import (
    DTYPES,
    LARGEST_INTEGER,
    MAX_EMPTY_SIDE,
    MAX_NAME,
    MAX_RANK,
    MAX_TENSOR_HEADER,
    MAX_TENSORS,
)

_LENGTH = struct.Struct("<Q")
TABLE = "the table of tensors"


def check_tensors(blob: bytes) -> None:
    """Refuse tensors in safetensors format by their table; whether the bytes fit it is seen when they are read.

    Raises:
        WireError: there are too many, or one has a name, type or shape that none of ours has.
    """
    if len(blob) < _LENGTH.size:
        raise WireError("the tensors are not readable safetensors: they lack a table")
    (length,) = _LENGTH.unpack_from(blob)
    if length > len(blob) - _LENGTH.size:
        raise WireError("the tensors are not readable safetensors: their table is longer than what came")
    if length > MAX_TENSOR_HEADER:
        raise WireError(
            f"the table of tensors has {length} bytes: {MAX_TENSORS} tensors are the most in one record"
        )
    head = blob[_LENGTH.size : _LENGTH.size + length]
    if head.count(b"{") - 1 > MAX_TENSORS:
        raise WireError(f"more than {MAX_TENSORS} tensors in one record")
    try:
        table = read(head.decode("ascii"), TABLE)
    except UnicodeDecodeError:
        raise WireError("the tensors are not readable safetensors: their table is not ASCII") from None
    if not isinstance(table, dict):
        raise WireError(f"the tensors are not readable safetensors: {TABLE} is none")
    for name, form in table.items():
        _check_name(name)
        _check_form(name, form)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise WireError(f"a tensor's name is not 1 to {MAX_NAME} printable characters: {name[:80]!r}")


def _check_form(name: str, form: Any) -> None:
    match form:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": list(), **more} if not more:
            pass
        case _:
            raise WireError(f"the tensors are not readable safetensors: '{name}' lacks dtype, shape or place")
    if dtype not in DTYPES:
        raise WireError(f"tensor '{name}' has type {dtype[:20]!r}: use one of {', '.join(sorted(DTYPES))}")
    if len(shape) > MAX_RANK or any(type(side) is not int or side < 0 for side in shape):
        raise WireError(f"tensor '{name}' has no shape of at most {MAX_RANK} counts")
    if math.prod(shape) > LARGEST_INTEGER or (0 in shape and max(shape) > MAX_EMPTY_SIDE):
        raise WireError(f"tensor '{name}' has a shape beyond what its bytes can hold")
