"""How parts of neighbour sums travel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedtag.common.errors import WireError
from fedtag.common.parts.neighbour_exchange.names import PARTS
from fedtag.common.wire.records import Content

BYTES = f"{PARTS}/bytes"
SLOT = re.compile(r"[0-9a-f]{64}")
MOST_OWNERS = 10**6


@dataclass(frozen=True)
class Part:
    """What one institution adds to the sums of another, or the whole sums.

    Args:
        recipient: whose sums they are.
        slot: hexadecimal; parts of one recipient with the same slot belong together.
        owners: how many parts there must be.
        body: enciphered.
    """

    recipient: str
    slot: str
    owners: int
    body: bytes


def packed(parts: Iterable[Part]) -> Content:
    """Parts as one tensor of bytes and a table; nothing without any."""
    parts = tuple(parts)
    if not parts:
        return Content()
    table = [[part.recipient, part.slot, part.owners, len(part.body)] for part in parts]
    joined = bytearray(b"".join(part.body for part in parts))
    return Content({BYTES: torch.frombuffer(joined, dtype=torch.uint8)}, {PARTS: table})


def unpacked(content: Content) -> tuple[Part, ...]:
    """The inverse of `packed`, of a record that anybody may have written.

    Raises:
        WireError: it is none.
    """
    table, stored = content.values.get(PARTS, []), content.tensors.get(BYTES)
    joined = b"" if stored is None else _bytes(stored)
    if not isinstance(table, list) or not all(_is_entry(entry) for entry in table):
        raise WireError("parts are told by recipient, slot, number of owners and size")
    if sum(size for *_, size in table) != len(joined):
        raise WireError("parts have other sizes than their table says")
    found, start = [], 0
    for recipient, slot, owners, size in table:
        found.append(Part(recipient, slot, owners, joined[start : start + size]))
        start += size
    if len({(part.recipient, part.slot) for part in found}) < len(found):
        raise WireError("a client has at most one part in a sum")
    return tuple(found)


def _bytes(stored: Tensor) -> bytes:
    if stored.dtype != torch.uint8 or stored.dim() != 1:
        raise WireError("parts are a row of bytes")
    return stored.cpu().numpy().tobytes()


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, list) or len(entry) != 4:
        return False
    recipient, slot, owners, size = entry
    named = isinstance(recipient, str) and isinstance(slot, str) and bool(SLOT.fullmatch(slot))
    return named and type(owners) is int and type(size) is int and 1 <= owners <= MOST_OWNERS and size >= 0
