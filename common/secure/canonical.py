"""Bytes that stand for a list of parts and for no other list, and the check of bytes that arrive as text."""

from __future__ import annotations

from typing import Any

from fedtag.common.errors import ProtocolError


def canonical(*parts: str | int | bytes) -> bytes:
    """The parts in order, each after its type and length, so that no two lists of parts give the same bytes."""
    pieces = []
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        pieces.append(f"{type(part).__name__}:{len(encoded)}:".encode() + encoded)
    return b"".join(pieces)


def from_hex(value: Any, size: int, what: str) -> bytes:
    """Bytes from lower-case hexadecimal digits that somebody else sent.

    Args:
        value: anything that JSON can hold.
        size: the number of bytes that it must be.
        what: names the value in the error.

    Raises:
        ProtocolError: it is not text of exactly 2 · size such digits.
    """
    if isinstance(value, str) and len(value) == 2 * size:
        try:
            decoded = bytes.fromhex(value)
        except ValueError:
            decoded = b""
        if decoded.hex() == value:
            return decoded
    raise ProtocolError(
        f"{what} must be {2 * size} lower-case hexadecimal digits; both sides need the same fedtag"
    )
