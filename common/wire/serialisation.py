"""Records to text and bytes and back; nothing is ever unpickled, and reading treats its input as hostile."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fedtag.common.errors import WireError
from fedtag.common.tensors import tensor_bytes, tensors_of
from fedtag.common.wire.records import Content, Instruction, Json, Letter, Reply
from fedtag.common.wire.serialised import Serialised

MAX_DEPTH = 32
LARGEST_INTEGER = 2**63 - 1

R = TypeVar("R", Instruction, Reply)


def serialised(record: Instruction | Reply) -> Serialised:
    """A record as text and bytes."""
    tensors = record.content.tensors
    return replace(serialised_text(record), tensors=tensor_bytes(tensors) if tensors else None)


def serialised_text(record: Instruction | Reply) -> Serialised:
    """A record without its tensors."""
    fields = {name: value for name, value in vars(record).items() if name != "content"}
    table = {"kind": type(record).__name__, **fields, "values": dict(record.content.values)}
    header = json.dumps(table, sort_keys=True, allow_nan=False, separators=(",", ":"))
    letters = record.content.letters
    if not letters:
        return Serialised(header)
    addresses = json.dumps([[letter.sender, letter.recipient, letter.kind] for letter in letters])
    return Serialised(header, None, addresses, tuple(letter.body for letter in letters))


def instruction_of(record: Serialised) -> Instruction:
    """The instruction that was serialised.

    Raises:
        WireError: if it is not one.
    """
    return _read(record, Instruction, {"run": str, "step": int, "round": int, "phase": str}, math.inf)


def reply_of(record: Serialised, max_bytes: float) -> Reply:
    """The reply that was serialised.

    Raises:
        WireError: if it is not one, larger than `max_bytes`, or not finite JSON.
    """
    fields = {"run": str, "step": int, "round": int, "phase": str, "client": str}
    return _read(record, Reply, fields, max_bytes)


def _read(record: Serialised, kind: type[R], fields: Mapping[str, type], max_bytes: float) -> R:
    header = _parse(record.header)
    if header.get("kind") != kind.__name__:
        raise WireError(f"expected a record of kind {kind.__name__}, got {header.get('kind')!r}")
    for name, wanted in fields.items():
        if type(header.get(name)) is not wanted:
            raise WireError(f"field '{name}' of {kind.__name__} is not a {wanted.__name__}")
    values = header.get("values")
    if not isinstance(values, dict):
        raise WireError("field 'values' is not a table")
    content = Content(_tensors(record.tensors, max_bytes), values, _letters(record, max_bytes))
    return kind(**{name: header[name] for name in fields}, content=content)


def _parse(text: str) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise WireError(f"the header holds {constant}; only finite numbers are allowed")

    try:
        header = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise WireError("the header is not a table")
    _check_json(header, MAX_DEPTH)
    return header


def _check_json(value: Json, depth: int) -> None:
    """Refuse what JSON can say but later steps cannot keep: 1e999, endless integers, half surrogates, depth."""
    if depth == 0:
        raise WireError(f"the header nests deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_json(key, depth)
            _check_json(entry, depth - 1)
    elif isinstance(value, list):
        for entry in value:
            _check_json(entry, depth - 1)
    elif isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise WireError("the header holds half of a surrogate pair, which is no text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise WireError("the header holds an infinite number; only finite numbers are allowed")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise WireError("the header holds an integer beyond 64 bits")


def _tensors(blob: bytes | None, max_bytes: float) -> dict[str, Any]:
    if blob is None:
        return {}
    if len(blob) > max_bytes:
        raise WireError(
            f"{len(blob)} bytes of tensors exceed exchange.max-message-mb ({max_bytes / 2**20:g})"
        )
    try:
        return tensors_of(blob)
    except ValueError as error:
        raise WireError(f"the tensors are not readable safetensors: {error}") from None


def _letters(record: Serialised, max_bytes: float) -> tuple[Letter, ...]:
    if record.addresses is None:
        return ()
    try:
        addresses = json.loads(record.addresses)
    except (ValueError, RecursionError):
        raise WireError("the letters' addresses are not JSON") from None
    if not isinstance(addresses, list) or len(record.bodies) != len(addresses):
        raise WireError("letters and addresses differ in number")
    letters = []
    for address, body in zip(addresses, record.bodies, strict=True):
        valid = (
            isinstance(address, list) and len(address) == 3 and all(isinstance(part, str) for part in address)
        )
        if not valid:
            raise WireError("a letter needs sender, recipient, kind and a body of bytes")
        letters.append(Letter(address[0], address[1], address[2], body))
    size = sum(len(letter.body) for letter in letters)
    if size > max_bytes:
        raise WireError(f"{size} bytes of letters exceed exchange.max-message-mb ({max_bytes / 2**20:g})")
    return tuple(letters)
