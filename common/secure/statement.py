"""What members sign before they help to open a sum, so that all of them open the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Block
from fedtag.common.secure.canonical import canonical, from_hex
from fedtag.common.secure.groups import Groups
from fedtag.common.wording.counts import plural

SIGNATURE_BYTES = 64


def statement(block: Block, index: int, survivors: Iterable[str], told: bytes, opened: Groups = ()) -> bytes:
    """The bytes to sign: which sum of which block, over whom, in which groups, and what was asked for.

    Two members sign the same bytes only if the server told them the same members, keys, survivors and groups, and asked
    them for the same. `told` is the digest of the latter.

    Raises:
        ProtocolError: the block has no such sum.
    """
    slot = block.slot(index)
    ordered = sorted(survivors)
    groups = b"".join(canonical(len(group), *group) for group in opened)
    return canonical("survivors", *slot.parts, block.digest, told, len(ordered), *ordered, groups)


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
        others = [name for name in sorted(survivors) if name in signatures and name not in valid]
        told = f"{', '.join(others)} signed something else, as the server asked them for it"
        raise ProtocolError(
            f"{plural(len(valid), 'survivor')} signed what this site was told, {block.threshold} are needed: "
            f"{told if others else 'the others did not answer'}"
        )
