"""Masks that cancel in a sum: one a pair of members, and one that each member adds for itself.

Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning (CCS 2017), section 4:
y_u = x_u + PRG(b_u) + Σ_{v: u<v} PRG(s_uv) − Σ_{v: v<u} PRG(s_uv)  (mod 2^64).
Every key belongs to one sum only, and keys of different sums share no root.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from jaxtyping import UInt64

from fedtag.common.secure.agreement import agreed_secret, derived_key
from fedtag.common.secure.canonical import canonical

SECRET_BYTES = 16
PIECE = 1 << 16  # words masked at a time: half a megabyte stays in the processor's cache
WORD = 8


@dataclass(frozen=True)
class Slot:
    """Which sum: its number, from 0, within a block of a run."""

    run: str
    block: str
    index: int

    @property
    def parts(self) -> tuple[str, str, int]:
        """What keys of this sum are derived from."""
        return self.run, self.block, self.index


def mask_key(secret: bytes, slot: Slot, owner: str) -> X25519PrivateKey:
    """The private mask key of a member for one sum, from its 16-byte secret κ."""
    return X25519PrivateKey.from_private_bytes(derived_key(secret, "mask key", *slot.parts, owner))


def pair_key(
    private: X25519PrivateKey, public: bytes, slot: Slot, owner: str, peer: str, told: bytes
) -> bytes:
    """The key of the mask that two members share in one sum; both compute the same if they were told the same.

    Args:
        private: the mask key of `owner`.
        public: the public mask key of `peer`, 32 bytes.
        told: digest of what the server asked the owner for.

    Raises:
        ProtocolError: the public key is degenerate.
    """
    return derived_key(
        agreed_secret(private, public, peer), "pair", *slot.parts, *sorted((owner, peer)), told
    )


def self_key(secret: bytes, slot: Slot, owner: str) -> bytes:
    """The key of a member's own mask in one sum, from its 16-byte secret b."""
    return derived_key(secret, "self", *slot.parts, owner)


def commitment(secret: bytes, slot: Slot, owner: str) -> bytes:
    """SHA-256 that binds a member to b before the sum; it hides b, which is uniform over 128 bits."""
    return hashlib.sha256(canonical("commitment", *slot.parts, owner, secret)).digest()


def adds(owner: str, peer: str) -> bool:
    """Whether `owner` adds the mask shared with `peer`, who then subtracts it: the smaller name adds."""
    return owner < peer


def keystream(key: bytes, words: int) -> Iterable[UInt64[np.ndarray, " piece"]]:
    """The first `words` numbers of AES-256 in counter mode, piece by piece; a key is for one vector only."""
    encryptor = Cipher(AES(key), CTR(bytes(16))).encryptor()
    zeros = bytes(min(words, PIECE) * WORD)
    for start in range(0, words, PIECE):
        size = min(PIECE, words - start)
        yield np.frombuffer(encryptor.update(memoryview(zeros)[: size * WORD]), "<u8").astype(
            np.uint64, copy=False
        )


def masked(
    vector: UInt64[np.ndarray, " n"], added: Iterable[bytes], subtracted: Iterable[bytes]
) -> UInt64[np.ndarray, " n"]:
    """The vector plus the keystreams of some keys, minus those of others, modulo 2^64.

    Memory beyond the result does not grow with the number of keys or coordinates.
    """
    total = vector.copy()
    for keys, combine in ((added, np.add), (subtracted, np.subtract)):
        for key in keys:
            start = 0
            for piece in keystream(key, total.size):
                part = total[start : start + piece.size]
                combine(part, piece, out=part)
                start += piece.size
    return total
