"""Records to text and bytes and back; nothing is ever unpickled, and reading treats its input as hostile."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from fedtag.common.errors import WireError
from fedtag.common.tensors import tensor_bytes, tensors_of
from fedtag.common.wire.bounded_json import parsed
from fedtag.common.wire.bounded_tensors import check_tensors
from fedtag.common.wire.limits import MAX_ADDRESS, MAX_LETTERS
from fedtag.common.wire.records import Content, Instruction, Letter, Reply
from fedtag.common.wire.serialised import Serialised

ADDRESSES = "the list of letters' addresses"

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
    header = parsed(record.header, "the header")
    if not isinstance(header, dict):
        raise WireError("the header is not a table")
    if header.get("kind") != kind.__name__:
        raise WireError(f"expected a record of kind {kind.__name__}, got {str(header.get('kind'))[:40]!r}")
    for name, wanted in fields.items():
        if type(header.get(name)) is not wanted:
            raise WireError(f"field '{name}' of {kind.__name__} is not a {wanted.__name__}")
    values = header.get("values")
    if not isinstance(values, dict):
        raise WireError("field 'values' is not a table")
    content = Content(_tensors(record.tensors, max_bytes), values, _letters(record, max_bytes))
    return kind(**{name: header[name] for name in fields}, content=content)


def _tensors(blob: bytes | None, max_bytes: float) -> dict[str, Any]:
    if blob is None:
        return {}
    if len(blob) > max_bytes:
        raise WireError(
            f"{len(blob)} bytes of tensors exceed exchange.max-message-mb ({max_bytes / 2**20:g})"
        )
    check_tensors(blob)
    try:
        return tensors_of(blob)
    except ValueError as error:
        raise WireError(f"the tensors are not readable safetensors: {error}") from None


def _letters(record: Serialised, max_bytes: float) -> tuple[Letter, ...]:
    if record.addresses is None:
        return ()
    addresses = parsed(record.addresses, ADDRESSES)
    if not isinstance(addresses, list) or len(record.bodies) != len(addresses):
        raise WireError("letters and addresses differ in number")
    if len(addresses) > MAX_LETTERS:
        raise WireError(f"more than {MAX_LETTERS} letters in one record")
    letters = []
    for address, body in zip(addresses, record.bodies, strict=True):
        match address:
            case [str(sender), str(recipient), str(kind)]:
                pass
            case _:
                raise WireError("a letter needs sender, recipient, kind and a body of bytes")
        if max(map(len, address)) > MAX_ADDRESS:
            raise WireError(f"a letter's address has a part of more than {MAX_ADDRESS} characters")
        letters.append(Letter(sender, recipient, kind, body))
    size = sum(len(letter.body) for letter in letters)
    if size > max_bytes:
        raise WireError(f"{size} bytes of letters exceed exchange.max-message-mb ({max_bytes / 2**20:g})")
    return tuple(letters)
