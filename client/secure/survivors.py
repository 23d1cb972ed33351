"""Whom a server says survived a sum, and in which groups it is to be opened: one list a sum, checked before signed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.client.secure.balance import check_balance
from fedtag.client.secure.grouping import groups_to_open
from fedtag.client.secure.vault import Holdings, Vault
from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Block
from fedtag.common.secure.groups import Groups
from fedtag.common.wording.counts import plural


def told_survivors(
    name: str, held: Holdings, block: Block, request: Mapping[str, Any], vault: Vault
) -> tuple[tuple[str, ...], Groups]:
    """The survivors of the sum masked last, and the groups that it is opened in; none for one sum over all.

    Args:
        name: of the member that is asked.
        held: what it holds.
        block: of the sum.
        request: with index, survivors and opened.
        vault: of the member.

    Raises:
        ProtocolError: another sum, strange names, too few, others than before, or one who would stand bare.
    """
    index, names = request["index"], request["survivors"]
    if block.slot(index).index != held.masked:
        raise ProtocolError(f"{name} masked sum {held.masked} last, so it cannot help with sum {index}")
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ProtocolError("survivors must be a list of names; the server needs the same fedtag")
    survivors = tuple(sorted(set(names)))
    strangers = sorted(set(survivors) - set(block.members))
    if strangers or len(survivors) != len(names):
        raise ProtocolError(f"survivors must be members of the block, each once; strange: {strangers[:5]}")
    if name not in survivors:
        raise ProtocolError(f"{name} is not among the survivors, so it must not help to open this sum")
    if len(survivors) < block.threshold:
        raise ProtocolError(
            f"{plural(len(survivors), 'survivor')} cannot open a sum, {block.threshold} are needed: repeat the round"
        )
    opened = groups_to_open(name, held, survivors, request["opened"], vault)
    for former in (held.signed, held.released):
        if former is not None and former != listed(survivors, opened):
            raise ProtocolError(f"{name} was told other survivors of sum {index} before: one list a sum")
    for summed in opened or (survivors,):
        check_balance(held.weights, summed)
    return survivors, opened


def listed(survivors: tuple[str, ...], opened: Groups) -> tuple[str, ...]:
    """Survivors with the groups that are opened, as one list that is kept."""
    return (*survivors, *(f"{','.join(group)};" for group in opened))
