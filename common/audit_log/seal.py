"""Seals: signatures that bind a log's owner to all lines before them."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedtag.common.audit_log.facts import Sealed
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.identity import Identity


def statement(owner: str, lines: int, head: str, key: str) -> bytes:
    """What a seal signs: whose log it is, how many lines it has so far, and the digest of the last."""
    return canonical("audit log", owner, lines, head, key)


def sealed(owner: str, lines: int, head: str, identity: Identity) -> dict[str, Any]:
    """The facts of a seal (Ed25519, RFC 8032) of the first `lines` lines."""
    key = identity.public.sign.hex()
    signature = identity.sign(statement(owner, lines, head, key)).hex()
    return {"owner": owner, "lines": lines, "head": head, "key": key, "signature": signature}


def is_genuine(seal: Sealed) -> bool:
    """Whether the key that a seal names has signed what the seal says."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(seal.key))
        key.verify(bytes.fromhex(seal.signature), statement(seal.owner, seal.lines, seal.head, seal.key))
    except (InvalidSignature, ValueError):
        return False
    return True
