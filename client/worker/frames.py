"""Typed records on a local socket: a length, a header (JSON), and bytes whose lengths the header states."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.wire.serialised import MAX_HEADER_BYTES, Serialised

LENGTH = struct.Struct("<I")
# The header of a record is a string in the header of a frame, where JSON may need six bytes for a letter.
MAX_FRAME_HEADER = 6 * MAX_HEADER_BYTES + 2**20
MAX_PARTS = 100_000
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
    if length > MAX_FRAME_HEADER:
        raise WireError(f"a frame's header of {length} bytes exceeds {MAX_FRAME_HEADER}")
    header = _exactly(connection, length)
    try:
        table = json.loads(header, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a frame's header is not JSON: {error}") from None
    match table:
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
    own = {"header": record.header, "addresses": record.addresses, "tensors": len(tensors)}
    return Frame(kind, {**fields, "record": own}, (*tensors, *record.bodies))


def record_of(frame: Frame) -> Serialised:
    """The record that a frame carries.

    Raises:
        WireError: it carries none.
    """
    match frame.table("record"):
        case {"header": str(header), "addresses": str() | None as addresses, "tensors": 0 | 1 as tensors}:
            pass
        case _:
            raise WireError("a frame's record needs a header, addresses and the number of its arrays")
    if len(frame.parts) < tensors:
        raise WireError("a frame's record lacks its tensors")
    return Serialised(header, frame.parts[0] if tensors else None, addresses, frame.parts[int(tensors) :])


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no finite number")


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
