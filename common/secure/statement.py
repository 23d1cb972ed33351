"""What members sign before they help to open a sum, so that all of them open the same one."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Block
from fedtag.common.secure.canonical import canonical, from_hex

SIGNATURE_BYTES = 64


def weights_digest(weights: Mapping[str, float]) -> bytes:
    """SHA-256 over the weight of each member, bit for bit."""
    parts: list[str | bytes] = []
    for name, weight in sorted(weights.items()):
        parts += [name, struct.pack("<d", weight)]
    return hashlib.sha256(canonical("weights", *parts)).digest()


def statement(
    block: Block, index: int, survivors: Iterable[str], weights: Mapping[str, float], received: str = ""
) -> bytes:
    """The bytes to sign: which sum of which block, over whom, with which weights, and of updates to what.

    Two members sign the same bytes only if the server told them the same members, keys, survivors and weights,
    and sent them the same model. `received` is the fingerprint of the latter, empty where there is none.

    Raises:
        ProtocolError: the block has no such sum.
    """
    slot = block.slot(index)
    ordered = sorted(survivors)
    return canonical(
        "survivors", *slot.parts, block.digest, weights_digest(weights), received, len(ordered), *ordered
    )


def signers(block: Block, signed: bytes, signatures: Mapping[str, Any]) -> tuple[str, ...]:
    """The members whose signature of a statement is valid.

    Args:
        block: whose members they are.
        signed: the statement.
        signatures: by member, in hexadecimal; what is none counts as not signed.
    """
    valid = []
    for name, value in sorted(signatures.items()):
        try:
            signature = from_hex(value, SIGNATURE_BYTES, f"the signature of {name}")
        except ProtocolError:
            continue
        if block.members[name].identity.verify(signed, signature):
            valid.append(name)
    return tuple(valid)


def check_signatures(block: Block, signed: bytes, survivors: Iterable[str], signatures: Any) -> None:
    """Refuse to go on unless enough survivors signed this very statement.

    Args:
        block: whose members they are.
        signed: the statement as this member was told it.
        survivors: the members whose signatures count.
        signatures: a table by member, which anybody may have written.

    Raises:
        ProtocolError: fewer than the threshold did.
    """
    if not isinstance(signatures, dict):
        raise ProtocolError("a site with a roster releases shares only with signatures of the survivors")
    valid = signers(block, signed, {name: signatures.get(name) for name in survivors})
    if len(valid) < block.threshold:
        raise ProtocolError(
            f"{len(valid)} survivors signed what this site was told, {block.threshold} are needed: the others did "
            "not answer, or were told something else"
        )
