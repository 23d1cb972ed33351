"""Whom a site trusts: the blocks that it takes part in, the peers to whom it writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.block import Plan
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.shares import threshold
from fedtag.common.wording.counts import plural

LOGGER = logging.getLogger("fedtag")


def admit(
    plan: Plan,
    name: str,
    own: PublicIdentity,
    roster: Mapping[str, PublicIdentity] | None,
    fixed: FixedPoint,
) -> None:
    """Refuse a block in which a site's updates would not be safe.

    Args:
        plan: what the server asks for.
        name: of the site.
        own: its keys.
        roster: the keys of all sites, as their operators exchanged them; None if the server is trusted.
        fixed: how vectors are encoded.

    Raises:
        ProtocolError: keys are not those of the site or of its roster, members are too few for the roster, or
            too many for the encoding.
    """
    if plan.asked.get(name) != own:
        raise ProtocolError(f"the block has other keys of {name} than its own: ask for its keys again")
    if len(plan.asked) > fixed.most_clients:
        raise ProtocolError(
            f"{len(plan.asked)} members could overflow 64 bits, {fixed.most_clients} cannot: "
            "lower privacy.scale-bits or privacy.limit"
        )
    if roster is None:
        return
    needed = threshold(len(roster)) if len(roster) > 1 else 2
    if len(plan.asked) < needed:
        raise ProtocolError(
            f"a block of {plural(len(plan.asked), 'member')} is too small for the roster of {name}, which has "
            f"{plural(len(roster), 'institution')}: {needed} must take part"
        )
    for peer, identity in plan.asked.items():
        if roster.get(peer) != identity:
            raise ProtocolError(
                f"the keys of {peer} are not those in the roster of {name}: correct the roster if "
                f"{peer} confirms them, or leave {peer} out"
            )


def trusted_peers(
    table: Any, name: str, own: PublicIdentity, roster: Mapping[str, PublicIdentity] | None
) -> dict[str, PublicIdentity]:
    """The keys to which a site seals letters, by name, without its own.

    A peer whose keys are no keys, or not those of the roster, is left out and logged.

    Args:
        table: the server's, of all clients.
        name: of the site.
        own: its keys.
        roster: the keys of all sites, as their operators exchanged them; None if the server is trusted.

    Raises:
        ProtocolError: the table is none, or has other keys of the site itself: its peers would write to another.
    """
    if not isinstance(table, dict):
        raise ProtocolError("letters to peers need the table of their keys; the server needs the same fedtag")
    peers: dict[str, PublicIdentity] = {}
    for peer, entry in sorted(table.items()):
        try:
            identity = PublicIdentity.from_json(entry, peer)
        except ProtocolError as error:
            LOGGER.warning("%s is no peer: %s", peer, error)
            continue
        if peer == name:
            if identity != own:
                raise ProtocolError(
                    f"the server tells other keys of {name} than its own: ask for its keys again"
                )
        elif roster is not None and roster.get(peer) != identity:
            LOGGER.warning("%s is no peer: its keys are not those in the roster of %s", peer, name)
        else:
            peers[peer] = identity
    return peers
