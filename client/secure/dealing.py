"""The secrets of a block: drawn, dealt in sealed letters, and received."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.agreement import public_bytes
from fedtag.common.secure.block import Block, Plan
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.masks import SECRET_BYTES, Slot, commitment, mask_key
from fedtag.common.secure.member_keys import MemberKeys
from fedtag.common.secure.shares import split_secret
from fedtag.common.wire.records import Letter

SHARES = "shares"

Pair = tuple[bytes, bytes]
"""Of κ and of b: the secrets of one sum, or a peer's shares of them."""


@dataclass(frozen=True, repr=False)
class Dealt:
    """What a member draws for a block.

    Args:
        secrets: κ and b of each sum; all are independent, so that one that becomes known opens nothing else.
        keys: what is published about them.
        letters: the shares of the other members, sealed.
        kept: the member's shares of its own secrets, by sum.
    """

    secrets: tuple[Pair, ...]
    keys: MemberKeys
    letters: tuple[Letter, ...]
    kept: tuple[Pair, ...]


def deal(plan: Plan, name: str, identity: Identity, draw: bytes = b"") -> Dealt:
    """Draws the secrets of one member and splits each among all members.

    Args:
        plan: of the block; it names the member with its own keys.
        name: of the member.
        identity: of the member.
        draw: its part of the seed of groups; nothing where there are none.

    Raises:
        ProtocolError: a letter cannot be sealed with the key of a peer.
    """
    slots = [Slot(plan.run, plan.id, index) for index in range(plan.sums)]
    drawn = tuple((os.urandom(SECRET_BYTES), os.urandom(SECRET_BYTES)) for _ in slots)
    keys = MemberKeys(
        identity.public,
        tuple(
            public_bytes(mask_key(secret, slot, name)) for (secret, _), slot in zip(drawn, slots, strict=True)
        ),
        tuple(commitment(secret, slot, name) for (_, secret), slot in zip(drawn, slots, strict=True)),
        draw,
    )
    split = [
        tuple(split_secret(secret, plan.threshold, len(plan.asked)) for secret in pair) for pair in drawn
    ]
    letters = []
    kept: tuple[Pair, ...] = ()
    for peer, rank in plan.ranks.items():
        shares = tuple((of_pair[rank], of_self[rank]) for of_pair, of_self in split)
        if peer == name:
            kept = shares
            continue
        text = b"".join(share for pair in shares for share in pair)
        sealed = identity.seal_for(plan.asked[peer], _context(plan, name, peer), text)
        letters.append(Letter(name, peer, SHARES, sealed))
    return Dealt(drawn, keys, tuple(letters), kept)


def received(
    block: Block, name: str, identity: Identity, letters: Iterable[Letter]
) -> dict[str, tuple[Pair, ...]]:
    """The shares, by sum, that each member of a block dealt to this one.

    A letter that is altered, about another block, from a stranger or for somebody else counts as none.

    Args:
        block: whose members may have dealt.
        name: of the receiving member.
        identity: of the receiving member.
        letters: those relayed to it.
    """
    shares: dict[str, tuple[Pair, ...]] = {}
    for letter in letters:
        sender = letter.sender
        if (letter.kind, letter.recipient) != (SHARES, name) or sender == name or sender not in block.members:
            continue
        try:
            context = _context(block.plan, sender, name)
            text = identity.open_from(block.members[sender].identity, context, letter.body)
        except ProtocolError:
            continue
        if len(text) == block.sums * 2 * SECRET_BYTES:
            parts = [text[start : start + SECRET_BYTES] for start in range(0, len(text), SECRET_BYTES)]
            shares[sender] = tuple(zip(parts[::2], parts[1::2], strict=True))
    return shares


def content_digest(block: Block, letters: Iterable[Letter]) -> str:
    """SHA-256 of what a member joins with, whatever the order of the letters."""
    sealed = sorted(
        canonical(letter.sender, letter.recipient, letter.kind, letter.body) for letter in letters
    )
    return hashlib.sha256(canonical(block.digest, *sealed)).hexdigest()


def _context(plan: Plan, sender: str, recipient: str) -> bytes:
    return canonical(SHARES, plan.run, plan.id, plan.sums, *plan.asked_names, sender, recipient)
