"""A record as text and bytes, which travel in Flower's messages and through a local socket alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Serialised:
    """An instruction or a reply; whoever passes it on needs neither torch nor Flower.

    Args:
        header: JSON with the record's fields and values.
        tensors: in safetensors format; None where the record has none.
        addresses: JSON with sender, recipient and kind of each letter; None where there are no letters.
        bodies: of the letters.
    """

    header: str
    tensors: bytes | None = None
    addresses: str | None = None
    bodies: tuple[bytes, ...] = ()
