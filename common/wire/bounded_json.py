"""JSON from elsewhere: what it would cost to read is counted before any of it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.wire.limits import (
    LARGEST_INTEGER,
    MAX_DEPTH,
    MAX_HEADER_BYTES,
    MAX_NAME,
    MAX_NUMBER,
    MAX_TABLES,
    MAX_TEXT,
    MAX_VALUES,
)

_OPEN, _CLOSED = b"[{", b"]}"
_MARKS = bytes(set(range(256)) - set(_OPEN + _CLOSED))
"""All bytes but brackets."""
_STEPS = {code: 1 if code in _OPEN else -1 for code in _OPEN + _CLOSED}
_WORDS = bytes(ord("x") if chr(code).isalnum() or code in b"+-._" else ord(" ") for code in range(256))
"""What a number or a word may be made of as x, all else as a blank."""
_LONG_WORD = b"x" * (MAX_NUMBER + 1)
# A character takes up to six: \u00e4.
_LONGEST_QUOTED = 6 * MAX_TEXT


def check_size(text: str, what: str) -> None:
    """Raise WireError where JSON is longer than one record's may be, or no ASCII, as ours is."""
    if len(text) > MAX_HEADER_BYTES or not text.isascii():
        raise WireError(f"{what} is not ASCII of at most {MAX_HEADER_BYTES} characters")


def parsed(text: str, what: str) -> Any:
    """The value that a text of JSON stands for.

    Args:
        text: from anybody.
        what: names it in errors.

    Raises:
        WireError: it is too long, deep, or rich in values, has a table with a key twice, or is not finite JSON.
    """
    value = read(text, what)
    _check_values([value], what)
    return value


def read(text: str, what: str) -> Any:
    """The same where whoever calls checks texts and numbers for what they may be.

    Raises:
        WireError: see `parsed`; numbers may be infinite or large, and texts long or half.
    """
    check_size(text, what)
    _check_form(text, what)
    try:
        return json.loads(text, parse_constant=_refused, object_pairs_hook=_table)
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what} is not JSON: {error}") from None


def _check_form(text: str, what: str) -> None:
    """Refuse by counts of characters what would be costly to read."""
    if text.count("[") + text.count("{") > MAX_TABLES:
        raise WireError(f"{what} holds more than {MAX_TABLES} lists and tables")
    # Before each value but the first of a list there is a comma or a colon.
    if text.count(",") + text.count(":") > MAX_VALUES or text.count('"') > 2 * MAX_VALUES + 2:
        raise WireError(f"{what} holds more than {MAX_VALUES} values")
    # Where a backslash stands outside a text, reading ends, and what this makes of the rest is without meaning.
    parts = text.replace("\\\\", "").replace('\\"', "").split('"')
    if max(map(len, parts[1::2]), default=0) > _LONGEST_QUOTED:
        raise WireError(f"{what} holds a text of more than {MAX_TEXT} characters")
    bare = '"'.join(parts[::2]).encode()
    if _LONG_WORD in bare.translate(_WORDS):
        raise WireError(f"{what} holds a number of more than {MAX_NUMBER} characters")
    if max(accumulate(map(_STEPS.__getitem__, bare.translate(None, _MARKS))), default=0) > MAX_DEPTH:
        raise WireError(f"{what} nests deeper than {MAX_DEPTH} levels")


def _refused(constant: str) -> None:
    raise ValueError(f"it holds {constant}, and only finite numbers are allowed")


def _table(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a table has a key twice")
    return table


def _check_values(values: Iterable[Any], what: str) -> None:
    """Refuse what JSON can say but later steps cannot keep: 1e999, large integers, half surrogates, long texts."""
    for value in values:
        kind = type(value)
        if kind is list:
            _check_values(value, what)
        elif kind is dict:
            if max(map(len, value), default=0) > MAX_NAME:
                raise WireError(f"{what} holds a key of more than {MAX_NAME} characters")
            _check_values(value, what)
            _check_values(value.values(), what)
        elif kind is str:
            _check_text(value, what)
        elif kind is float and not math.isfinite(value):
            raise WireError(f"{what} holds an infinite number; only finite numbers are allowed")
        elif kind is int and abs(value) > LARGEST_INTEGER:
            raise WireError(f"{what} holds an integer beyond 64 bits")


def _check_text(text: str, what: str) -> None:
    if len(text) > MAX_TEXT:
        raise WireError(f"{what} holds a text of more than {MAX_TEXT} characters")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in set(text)):
        raise WireError(f"{what} holds half of a surrogate pair, which is no text")
