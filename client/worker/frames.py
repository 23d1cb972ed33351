"""Typed records on a local socket: a length, a header (JSON), and bytes whose lengths the header states."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.wire.bounded_json import parsed
from fedtag.common.wire.limits import MAX_HEADER_BYTES, MAX_LETTERS
from fedtag.common.wire.serialised import Serialised

LENGTH = struct.Struct("<I")
MAX_PARTS = MAX_LETTERS + 3
"""Of a record: its header, the addresses and bodies of its letters, its tensors."""
MAX_BYTES = 16 * 2**30
PIECE = 2**20


@dataclass(frozen=True)
class Frame:
    """One request or answer.

    Args:
        kind: what it is.
        fields: JSON.
        parts: bytes of any length.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[bytes, ...] = ()

    def text(self, name: str) -> str:
        """A field that is a text.

        Raises:
            WireError: it is absent or something else.
        """
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise WireError(f"field '{name}' of frame '{self.kind}' is not a text")
        return value

    def table(self, name: str) -> dict[str, Any]:
        """A field that is a table.

        Raises:
            WireError: it is absent or something else.
        """
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise WireError(f"field '{name}' of frame '{self.kind}' is not a table")
        return value


def send(connection: socket.socket, frame: Frame) -> None:
    """Write a frame."""
    table = {"kind": frame.kind, "fields": dict(frame.fields), "parts": [len(part) for part in frame.parts]}
    header = json.dumps(table, allow_nan=False).encode()
    connection.sendall(LENGTH.pack(len(header)) + header)
    for part in frame.parts:
        connection.sendall(part)


def receive(connection: socket.socket) -> Frame:
    """Read a frame.

    Raises:
        WireError: what arrives is no frame.
        ConnectionError: the other side is gone.
    """
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    if length > MAX_HEADER_BYTES:
        raise WireError(f"a frame's header of {length} bytes exceeds {MAX_HEADER_BYTES}")
    header = _exactly(connection, length)
    # What is no ASCII is no header of ours, and refused as such.
    match parsed(header.decode("ascii", "replace"), "a frame's header"):
        case {"kind": str(kind), "fields": dict(fields), "parts": list(lengths)}:
            pass
        case _:
            raise WireError("a frame needs a kind, fields and the lengths of its parts")
    if any(type(one) is not int or one < 0 for one in lengths):
        raise WireError("the lengths of a frame's parts are not counts")
    if len(lengths) > MAX_PARTS or sum(lengths) > MAX_BYTES:
        raise WireError(f"a frame holds more than {MAX_PARTS} parts or {MAX_BYTES} bytes")
    return Frame(kind, fields, tuple(_exactly(connection, one) for one in lengths))


def record_frame(kind: str, record: Serialised, fields: Mapping[str, Any]) -> Frame:
    """A frame that carries a serialised record beside some fields."""
    tensors = () if record.tensors is None else (record.tensors,)
    addresses = () if record.addresses is None else (record.addresses.encode(),)
    own = {"addresses": len(addresses), "tensors": len(tensors)}
    parts = (record.header.encode(), *addresses, *tensors, *record.bodies)
    return Frame(kind, {**fields, "record": own}, parts)


def record_of(frame: Frame) -> Serialised:
    """The record that a frame carries.

    Raises:
        WireError: it carries none.
    """
    match frame.table("record"):
        case {"addresses": 0 | 1 as addresses, "tensors": 0 | 1 as tensors}:
            pass
        case _:
            raise WireError("a frame's record needs the numbers of its lists of addresses and of its arrays")
    if len(frame.parts) < 1 + addresses + tensors:
        raise WireError("a frame's record lacks its header, addresses or tensors")
    rest = iter(frame.parts)
    header, listed = _text(next(rest)), _text(next(rest)) if addresses else None
    return Serialised(header, next(rest) if tensors else None, listed, tuple(rest))


def _text(part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"a frame's record is no text: {error}") from None


def _exactly(connection: socket.socket, count: int) -> bytes:
    # Memory grows with what has arrived, not with what was announced.
    pieces = []
    while count:
        piece = connection.recv(min(count, PIECE))
        if not piece:
            raise ConnectionResetError("the other side closed the connection")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
