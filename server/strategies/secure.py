"""A sum of masked uploads, opened with the help of those who survived it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from jaxtyping import Float64, UInt64
from numpy.typing import NDArray

from fedtag.common.errors import ProtocolError, QuorumError
from fedtag.common.randomness import numpy_generator
from fedtag.common.secure.agreement import public_bytes
from fedtag.common.secure.block import Block as Block
from fedtag.common.secure.canonical import from_hex
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.groups import Groups
from fedtag.common.secure.masks import (
    SECRET_BYTES,
    Slot,
    adds,
    commitment,
    mask_key,
    masked,
    pair_key,
    self_key,
)
from fedtag.common.secure.reconstruction import Reconstruction
from fedtag.common.wording.counts import plural

SELF = "self"
PAIR = "pair"


@dataclass(frozen=True)
class _Released:
    """The shares that survivors released, by (kind, owner) and rank of the one who released it."""

    shares: Mapping[tuple[str, str], Mapping[int, bytes]]
    malformed: Mapping[str, str]
    senders: int


def open_sum(
    block: Block,
    index: int,
    uploads: Mapping[str, NDArray[Any]],
    releases: Mapping[str, Any],
    fixed: FixedPoint,
    told: bytes,
) -> Float64[np.ndarray, " n"]:
    """The sum of what the survivors encoded, and nothing else of it.

    Restores b of every member whose upload is in the sum and κ of every other one, checks both against what the
    member committed to, and takes their masks off the sum (Bonawitz et al., 2017, section 4, round 4). Memory
    is that of a few vectors beside the uploads.

    Args:
        block: of which it is a sum.
        index: which sum.
        uploads: by survivor: those whose upload arrived, exactly as the survivors were told.
        releases: by survivor: its answer to the request to release; some may be missing or wrong.
        fixed: that of the clients.
        told: digest of what all members were asked for.

    Raises:
        QuorumError: too few uploads, releases or shares; it says how many, and what was wrong with which.
        ProtocolError: an upload is from a stranger or has another form than the others, or shares do not give
            the secret that was committed to. Nothing was opened.
    """
    length, names = _checked_uploads(block, uploads, fixed), sorted(uploads)
    masks = _Masks.restored(block, index, names, names, releases, told)
    return fixed.decode(masks.taken_off(_added(uploads, names, length), names, masks.others, True))


def open_groups(
    block: Block,
    index: int,
    uploads: Mapping[str, NDArray[Any]],
    releases: Mapping[str, Any],
    fixed: FixedPoint,
    told: bytes,
    opened: Groups,
    groups: Groups,
    head: int,
) -> tuple[list[Float64[np.ndarray, " head"]], Float64[np.ndarray, " tail"]]:
    """The sums of groups in their first coordinates, and one sum over all these groups of the others.

    Args:
        block, index, uploads, releases, fixed, told: as for `open_sum`.
        opened: survivors whose uploads are summed, by group, at least one.
        groups: the partition; in the first coordinates members mask against their own group only.
        head: how many coordinates these are.

    Raises:
        QuorumError, ProtocolError: as for `open_sum`.
    """
    length = _checked_uploads(block, uploads, fixed)
    masks = _Masks.restored(
        block, index, sorted(uploads), [name for group in opened for name in group], releases, told
    )
    sums, tail = [], np.zeros(length - head, np.uint64)
    for own in opened:
        group = next(whole for whole in groups if own[0] in whole)
        inside = [name for name in masks.others if name in group]
        total = masks.taken_off(_added(uploads, own, length), own, inside, True)
        outside = [name for name in masks.others if name not in group]
        tail += masks.taken_off(total[head:], own, outside, False)
        sums.append(fixed.decode(total[:head]))
    return sums, fixed.decode(tail)


@dataclass(frozen=True)
class _Masks:
    """What is known of the masks in a sum: b of those who are in it, the mask keys of the others."""

    block: Block
    index: int
    told: bytes
    alone: Mapping[str, bytes]
    others: Mapping[str, X25519PrivateKey]

    @classmethod
    def restored(
        cls,
        block: Block,
        index: int,
        survivors: list[str],
        summed: list[str],
        releases: Mapping[str, Any],
        told: bytes,
    ) -> _Masks:
        slot, others = block.slot(index), sorted(block.members.keys() - set(summed))
        secrets = _restored(block, slot, _parsed(block, survivors, summed, others, releases))
        alone = {name: secrets[SELF, name] for name in summed}
        return cls(
            block, index, told, alone, {name: mask_key(secrets[PAIR, name], slot, name) for name in others}
        )

    def taken_off(
        self, total: UInt64[np.ndarray, " n"], names: Collection[str], absent: Iterable[str], own: bool
    ) -> UInt64[np.ndarray, " n"]:
        """Without the masks between those who are in a sum and those who are not; and, if wanted, without their own."""
        slot = self.block.slot(self.index)
        added = [self_key(self.alone[name], slot, name) for name in names] if own else []
        subtracted: list[bytes] = []
        for name, peer in product(absent, names):
            public = self.block.members[peer].mask_keys[self.index]
            key = pair_key(self.others[name], public, slot, name, peer, self.told)
            (added if adds(peer, name) else subtracted).append(key)
        return masked(total, added=subtracted, subtracted=added)


def _added(uploads: Mapping[str, NDArray[Any]], names: Iterable[str], length: int) -> NDArray[np.uint64]:
    total = np.zeros(length, np.uint64)
    for name in names:
        total += uploads[name]
    return total


def _checked_uploads(block: Block, uploads: Mapping[str, Any], fixed: FixedPoint) -> int:
    strangers = sorted(set(uploads) - set(block.members))
    if strangers:
        raise ProtocolError(f"{', '.join(strangers)} uploaded without being in the block: leave them out")
    if len(uploads) < block.threshold:
        raise QuorumError(
            f"{plural(len(uploads), 'masked upload')} arrived, {block.threshold} of {len(block.members)} members are "
            f"needed: {', '.join(sorted(set(block.members) - set(uploads)))} did not send any"
        )
    if len(block.members) > fixed.most_clients:
        raise ProtocolError(
            f"{len(block.members)} members could overflow 64 bits, {fixed.most_clients} cannot: lower limit"
        )
    shapes = {name: (str(upload.dtype), upload.shape) for name, upload in sorted(uploads.items())}
    first, form = next(iter(shapes.items()))
    for name, other in shapes.items():
        if other != form or len(form[1]) != 1 or form[0] != "uint64":
            raise ProtocolError(
                f"the upload of {name} is {other[0]} of shape {other[1]}, that of {first} {form[0]} of {form[1]}: "
                "all must be uint64 vectors of one length"
            )
    return int(form[1][0])


def _parsed(
    block: Block, survivors: list[str], summed: list[str], others: list[str], releases: Mapping[str, Any]
) -> _Released:
    ranks = block.plan.ranks
    shares: dict[tuple[str, str], dict[int, bytes]] = {
        **{(SELF, name): {} for name in summed},
        **{(PAIR, name): {} for name in others},
    }
    malformed = {}
    senders = 0
    for sender in survivors:
        if sender not in releases:
            continue
        try:
            released = list(_entries(sender, summed, others, releases[sender]))
        except ProtocolError as error:
            malformed[sender] = str(error)
            continue
        senders += 1
        for kind, owner, share in released:
            shares[kind, owner][ranks[sender]] = share
    return _Released(shares, malformed, senders)


def check_release(sender: str, summed: list[str], others: list[str], release: Any) -> None:
    """Refuse an answer that has another form than it was asked for; `open_sum` does without it.

    Raises:
        ProtocolError: naming the sender.
    """
    list(_entries(sender, summed, others, release))


def _entries(
    sender: str, summed: list[str], others: list[str], release: Any
) -> Iterator[tuple[str, str, bytes]]:
    if not isinstance(release, dict) or set(release) != {SELF, PAIR}:
        raise ProtocolError(f"{sender} released no table of self and pair")
    for kind, owners in ((SELF, summed), (PAIR, others)):
        table = release[kind]
        if not isinstance(table, dict) or not set(table) <= set(owners):
            raise ProtocolError(f"{sender} released {kind} shares of others than it was asked for")
        for owner, share in table.items():
            yield kind, owner, from_hex(share, SECRET_BYTES, f"a share that {sender} released")


def _restored(block: Block, slot: Slot, released: _Released) -> dict[tuple[str, str], bytes]:
    """Every secret that the sum takes; all or an error."""
    wrong = "".join(f"; {why}" for why in released.malformed.values())
    if released.senders < block.threshold:
        raise QuorumError(
            f"{plural(released.senders, 'member')} released shares of sum {slot.index}, {block.threshold} are needed: "
            f"repeat the round{wrong}"
        )
    generator = numpy_generator(slot.index, "reconstruction", block.id)
    reconstruction = Reconstruction(block.threshold, generator)
    secrets = {}
    for (kind, owner), shares in sorted(released.shares.items()):
        if len(shares) < block.threshold:
            raise QuorumError(
                f"{plural(len(shares), 'member')} released a {kind} share of {owner} for sum {slot.index}, "
                f"{block.threshold} are needed: its letters did not reach the others; repeat the round{wrong}"
            )
        secret = reconstruction.secret(shares, partial(_fits, block, slot, kind, owner))
        if secret is None:
            names = {rank: name for name, rank in block.plan.ranks.items()}
            raise ProtocolError(
                f"the {kind} shares of {owner} for sum {slot.index} do not give what it committed to: it dealt wrong "
                f"ones, or some of {', '.join(names[rank] for rank in sorted(shares))} released wrong ones; "
                f"repeat the round, without {owner} if that happens again{wrong}"
            )
        secrets[kind, owner] = secret
    return secrets


def _fits(block: Block, slot: Slot, kind: str, owner: str, candidate: bytes) -> bool:
    """Whether a restored secret is the one that its owner committed to."""
    keys = block.members[owner]
    if kind == SELF:
        return commitment(candidate, slot, owner) == keys.commitments[slot.index]
    return public_bytes(mask_key(candidate, slot, owner)) == keys.mask_keys[slot.index]
