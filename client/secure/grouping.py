"""What a member of groups checks: that they are those that all members drew, and that no sum gives anybody away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import UInt64

from fedtag.client.secure.vault import History, Holdings, Vault
from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Block
from fedtag.common.secure.groups import Groups, drawn_groups, parsed_groups, shown_by
from fedtag.common.secure.masks import adds, masked


def own_group(name: str, block: Block, groups: Groups, vault: Vault) -> Collection[str]:
    """The members with whom a member masks all coordinates: its group, or everybody where there are no groups.

    The groups of a run are drawn once, by the members of its first block, and stay.

    Raises:
        ProtocolError: they are others than those, or the member is in none.
    """
    if not groups:
        return block.members.keys()
    history = vault.history()
    draws = {peer: keys.draw for peer, keys in block.members.items()}
    if groups != (history.groups or drawn_groups(draws)):
        raise ProtocolError(
            f"{name} was told other groups than the run has, or than its members drew: groups stay, since sums over "
            "redrawn ones give single updates away; start a new run"
        )
    if not history.groups:
        vault.remember(History(groups))
    for group in groups:
        if name in group:
            return group
    raise ProtocolError(f"{name} is in no group of this run: it takes part in the next one")


def masked_by_group(
    encoded: UInt64[np.ndarray, " n"],
    name: str,
    alone: bytes,
    keys: Mapping[str, bytes],
    own: Collection[str],
    head: int | None,
) -> UInt64[np.ndarray, " n"]:
    """An encoded vector under a member's own mask and shared ones: all of it with its group, the tail with everybody.

    Args:
        encoded: as it is summed.
        name: of the member.
        alone: key of its own mask.
        keys: those that it shares, by peer.
        own: its group.
        head: how many coordinates are summed by group; None for all.
    """

    def split(peers: Iterable[str]) -> tuple[list[bytes], list[bytes]]:
        names = list(peers)
        return [keys[one] for one in names if adds(name, one)], [
            keys[one] for one in names if not adds(name, one)
        ]

    added, subtracted = split(peer for peer in keys if peer in own)
    upload = masked(encoded, [alone, *added], subtracted)
    if head is not None and head < upload.size:
        upload[head:] = masked(upload[head:], *split(peer for peer in keys if peer not in own))
    return upload


def groups_to_open(
    name: str, held: Holdings, survivors: Collection[str], request: Any, vault: Vault
) -> Groups:
    """The groups that a sum is opened in, each whole but for those who dropped out; none for one sum over all.

    Raises:
        ProtocolError: they are others than the sum was masked for, or would give a member away.
    """
    opened = parsed_groups(request)
    left = {tuple(peer for peer in group if peer in survivors) for group in held.groups}
    if bool(opened) != bool(held.groups) or not set(opened) <= left:
        raise ProtocolError(
            f"{name} masked for other groups than those to open: a group is opened whole, but for those who dropped out"
        )
    if opened and (shown := shown_by([*vault.history().opened, *opened])):
        raise ProtocolError(
            f"sums over these groups and those before give away {' less '.join(shown)}: leave the group of {shown[0]} "
            "out of the round"
        )
    return opened


def remember_opened(opened: Groups, vault: Vault) -> None:
    """Write down over whom sums are opened, before any share leaves."""
    history = vault.history()
    if not set(opened) <= set(history.opened):
        vault.remember(replace(history, opened=tuple(dict.fromkeys((*history.opened, *opened)))))
