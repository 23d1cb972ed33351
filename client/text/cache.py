"""The encoded form of each text, kept on disk by content."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.text.chunks import CHUNKER_VERSION
from fedtag.client.text.store import NONE, ContentStore, content_key
from fedtag.common.errors import RunError

_HEADER = struct.Struct("<II")


@dataclass(frozen=True)
class EncodedText:
    """The chunks of one text with their vectors, and the vector of the whole text."""

    start: Int[Tensor, " chunks"]
    end: Int[Tensor, " chunks"]
    tokens: Int[Tensor, " chunks"]
    vectors: Float[Tensor, "chunks dim"]
    document: Float[Tensor, " dim"]


def text_key(text: str, revision: str, max_tokens: int, dtype: str) -> bytes:
    """SHA-256 of all that the encoded form depends on."""
    return content_key(text, revision, CHUNKER_VERSION, max_tokens, dtype)


class TextCache:
    """EncodedText under `text_key`, bit for bit as it was computed.

    Args:
        path: an SQLite file, shared by any number of processes; see ContentStore.
    """

    def __init__(self, path: Path) -> None:
        self.store = ContentStore(path, "text")
        self.path = path

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, EncodedText]:
        """The entries that exist among `keys`.

        Raises:
            RunError: the file is damaged or belongs to something else.
        """
        found = self.store.get_many(keys)
        return {key: self._unpacked(payload) for key, payload in found.items()}

    def put_many(
        self, entries: Mapping[bytes, EncodedText], sources: Mapping[bytes, Sequence[str]] = NONE
    ) -> None:
        """Writes all entries in one transaction.

        Args:
            entries: by key.
            sources: the texts that each was made from.

        Raises:
            RunError: the file cannot be written, is damaged, or belongs to something else.
        """
        packed = {key: _packed(encoded) for key, encoded in entries.items()}
        self.store.put_many(packed, sources)

    def __len__(self) -> int:
        return len(self.store)

    def _unpacked(self, payload: bytes) -> EncodedText:
        chunks, dimension = _HEADER.unpack_from(payload) if len(payload) >= _HEADER.size else (0, 0)
        expected = _HEADER.size + chunks * (8 + 8 + 4) + 4 * (chunks + 1) * dimension
        if dimension == 0 or len(payload) != expected:
            raise RunError(f"the text cache {self.path} is damaged: delete it, and it is made anew")
        buffer = bytearray(payload)
        start, end, offset = 8, 8 + 8 * chunks, 8 + 16 * chunks
        floats = offset + 4 * chunks
        values = torch.frombuffer(buffer, dtype=torch.float32, offset=floats)
        return EncodedText(
            _integers(buffer, torch.int64, chunks, start),
            _integers(buffer, torch.int64, chunks, end),
            _integers(buffer, torch.int32, chunks, offset),
            values[: chunks * dimension].view(chunks, dimension),
            values[chunks * dimension :],
        )


def _integers(buffer: bytearray, dtype: torch.dtype, count: int, offset: int) -> Int[Tensor, " chunks"]:
    if count == 0:
        return torch.zeros(0, dtype=dtype)
    return torch.frombuffer(buffer, dtype=dtype, count=count, offset=offset)


def _packed(encoded: EncodedText) -> bytes:
    chunks, dimension = encoded.vectors.shape
    parts = (
        encoded.start.to(torch.int64),
        encoded.end.to(torch.int64),
        encoded.tokens.to(torch.int32),
        encoded.vectors.to(torch.float32),
        encoded.document.to(torch.float32),
    )
    return _HEADER.pack(chunks, dimension) + b"".join(part.numpy().tobytes() for part in parts)
