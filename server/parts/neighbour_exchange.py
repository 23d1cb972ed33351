"""The exchange of neighbour sums on the server, which adds enciphered parts and reads none."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Mapping

import torch

from fedtag.common.config import RunConfig
from fedtag.common.errors import WireError
from fedtag.common.parts.neighbour_exchange import homomorphic, masked_parts
from fedtag.common.parts.neighbour_exchange.messages import BYTES, Part, packed, unpacked
from fedtag.common.parts.neighbour_exchange.names import (
    AGAIN_PHASE,
    ASK_PHASE,
    COUNTS,
    GIVE_PHASE,
    NEIGHBOURS,
    PARTS,
    TAKE_PHASE,
)
from fedtag.common.parts.neighbour_exchange.settings import exchange_settings
from fedtag.common.wire.names import CLIENT_NAME
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import ServerState

LOGGER = logging.getLogger("fedtag")

ASK = Phase(ASK_PHASE, "clients tell whose neighbours they need sums over; once a run", letters=True)
GIVE = Phase(GIVE_PHASE, "clients encipher their parts of these sums; once a run", letters=True)
AGAIN = Phase(
    AGAIN_PHASE, "clients get sums, and encipher their parts of the next ones; once a run", letters=True
)
TAKE = Phase(TAKE_PHASE, "clients get sums; once a run", letters=True)

SUMS = "sums"
FILE = "neighbours.json"


def neighbour_phases(config: RunConfig) -> tuple[Phase, ...]:
    """The exchanges before round 1's own; none where the exchange is off.

    Raises:
        ConfigError: TenSEAL is needed and not installed.
    """
    if exchange_settings(config).mode == "off":
        return ()
    if exchange_settings(config).mode == "encrypted":
        homomorphic.tenseal()
    return (ASK, GIVE, AGAIN, TAKE) if exchange_settings(config).hops == 2 else (ASK, GIVE, TAKE)


def neighbour_forms(phase: str) -> Mapping[str, TensorForm]:
    """What a reply may hold: parts of as many sums as the client has part in."""
    return (
        {BYTES: TensorForm((0,), torch.uint8, any_length=True)} if phase in (GIVE_PHASE, AGAIN_PHASE) else {}
    )


def neighbour_sums(state: ServerState | None, phase: str, client: str | None) -> Content:
    """The sums that wait for a client."""
    waiting = state.values.get(SUMS, {}).get(client) if state is not None else None
    if state is None or waiting is None or phase not in (AGAIN_PHASE, TAKE_PHASE):
        return Content()
    return Content({BYTES: state.tensors[f"{SUMS}/{client}"]}, {PARTS: waiting})


def after_neighbours(
    state: ServerState, phase: str, replies: Mapping[str, Reply], config: RunConfig
) -> ServerState:
    """The state after a phase of the exchange: sums of the parts that came, and what clients tell of the end."""
    tensors = {name: value for name, value in state.tensors.items() if not name.startswith(f"{SUMS}/")}
    values = {name: value for name, value in state.values.items() if name != SUMS}
    if phase in (GIVE_PHASE, AGAIN_PHASE):
        sums = added(replies, exchange_settings(config).mode)
        contents = {recipient: packed(parts) for recipient, parts in sums.items()}
        tensors |= prefixed(SUMS, {name: content.tensors[BYTES] for name, content in contents.items()})
        values[SUMS] = {name: content.values[PARTS] for name, content in contents.items()}
    if phase == TAKE_PHASE:
        counts = {client: reply.content.values.get(NEIGHBOURS) for client, reply in sorted(replies.items())}
        values[NEIGHBOURS] = {client: one for client, one in counts.items() if one is not None}
    return ServerState(tensors, values)


def added(replies: Mapping[str, Reply], how: str) -> dict[str, list[Part]]:
    """Whole sums by recipient; a sum in which a part is missing or malformed is left out.

    Args:
        replies: with parts, by client.
        how: `summed` or `encrypted`.
    """
    together: dict[tuple[str, str, int], list[bytes]] = defaultdict(list)
    for client, reply in sorted(replies.items()):
        try:
            parts = unpacked(reply.content)
        except WireError as error:
            LOGGER.warning("parts of %s are left out: %s", client, error)
            continue
        for part in parts:
            if CLIENT_NAME.fullmatch(part.recipient) and part.recipient != client:
                together[part.recipient, part.slot, part.owners].append(part.body)
    add = homomorphic.added if how == "encrypted" else masked_parts.added
    found: dict[str, list[Part]] = defaultdict(list)
    for (recipient, slot, owners), bodies in sorted(together.items()):
        if len(bodies) != owners:
            LOGGER.warning(
                "a sum for %s is left out: %d of its %d parts came", recipient, len(bodies), owners
            )
            continue
        try:
            total = add(bodies)
        except WireError as error:
            LOGGER.warning("a sum for %s is left out: %s", recipient, error)
            continue
        found[recipient].append(Part(recipient, slot, owners, total))
    return found


def neighbour_document(state: ServerState) -> dict[str, str]:
    """How many nodes got sums, by client, as a file of the run directory; none without the exchange."""
    told: Mapping[str, Mapping[str, int]] = state.values.get(NEIGHBOURS, {})
    if not told:
        return {}
    total = {name: sum(counts[name] for counts in told.values()) for name in COUNTS}
    return {FILE: json.dumps({"total": total, "clients": told}, indent=1) + "\n"}
