"""Any method on features to which linked nodes elsewhere added; the server adds enciphered parts and reads none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping

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
from fedtag.common.parts.neighbour_exchange.settings import NeighbourExchangeConfig
from fedtag.common.wire.names import CLIENT_NAME
from fedtag.common.wire.records import Content, Reply
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.part import ServerPart
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

SECTION = "neighbour-exchange"


def _phase(name: str, why: str) -> Phase:
    return Phase(name, f"{why}; once a run", moves=SECTION, letters=True)


ASK = _phase(ASK_PHASE, "clients tell whose neighbours they need sums over")
GIVE = _phase(GIVE_PHASE, "clients encipher their parts of these sums")
AGAIN = _phase(AGAIN_PHASE, "clients get sums, and encipher their parts of the next ones")
TAKE = _phase(TAKE_PHASE, "clients get sums")

FILE = "neighbours.json"


class Exchanging(ServerPart):
    """Steps before round 1: `neighbours-ask`, `-give`, with two hops `-again`, and `-take`.

    The part's tensors are the enciphered sums that wait, by client; its values a table of each client's sums, and in
    the end of how many nodes got one.
    """

    section = SECTION

    def steps(self, context: ServerContext) -> tuple[Phase, ...]:
        """The exchanges of a run.

        Raises:
            ConfigError: TenSEAL is needed and not installed.
        """
        settings = context.settings.own(NeighbourExchangeConfig)
        if settings.mode == "encrypted":
            homomorphic.tenseal()
        return (ASK, GIVE, AGAIN, TAKE) if settings.hops == 2 else (ASK, GIVE, TAKE)

    def start(self, agreement: Agreement, context: ServerContext) -> ServerState:
        return ServerState({}, {PARTS: {}, NEIGHBOURS: {}})

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        if not self.owns(phase):
            return super().instruct(state, phase, client, context)
        own = None if state is None else self.own(state)
        if own is None or client is None or client not in own.values[PARTS]:
            return Content()
        return Content({BYTES: own.tensors[client]}, {PARTS: own.values[PARTS][client]})

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        """Of the exchange, parts of as many sums as the client has part in."""
        if not self.owns(phase):
            return super().expected(state, phase, context)
        gives = phase.name in (GIVE_PHASE, AGAIN_PHASE)
        return {BYTES: TensorForm((0,), torch.uint8, any_length=True)} if gives else {}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        if not self.owns(phase):
            return super().combine(state, phase, replies, aggregate, context)
        contents: dict[str, Content] = {}
        if phase.name in (GIVE_PHASE, AGAIN_PHASE):
            mode = context.settings.own(NeighbourExchangeConfig).mode
            contents = {name: packed(parts) for name, parts in added(replies, mode, context.note).items()}
        values = {
            PARTS: {name: content.values[PARTS] for name, content in contents.items()},
            NEIGHBOURS: {
                client: reply.content.values[NEIGHBOURS]
                for client, reply in sorted(replies.items())
                if NEIGHBOURS in reply.content.values
            },
        }
        tensors = {name: content.tensors[BYTES] for name, content in contents.items()}
        return self.joined(self.inner(state), ServerState(tensors, values)), {}

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """Those of the method, and how many nodes got sums, by client."""
        counts: Mapping[str, Mapping[str, int]] = self.own(state).values[NEIGHBOURS]
        total = {name: sum(one[name] for one in counts.values()) for name in COUNTS}
        text = json.dumps({"total": total, "clients": counts}, indent=1) + "\n"
        return {**super().documents(state, context), **({FILE: text} if counts else {})}


def around(method: ServerMethod, settings: RunConfig) -> ServerMethod:
    """A method with an exchange of neighbour sums around it."""
    return Exchanging(method)


def added(replies: Mapping[str, Reply], mode: str, note: Callable[[str], None]) -> dict[str, list[Part]]:
    """Whole sums by recipient; a sum in which a part is missing or malformed is left out.

    Args:
        replies: with parts, by client.
        mode: `summed` or `encrypted`.
        note: told what is left out.
    """
    together: dict[tuple[str, str, int], list[bytes]] = defaultdict(list)
    for client, reply in sorted(replies.items()):
        try:
            parts = unpacked(reply.content)
        except WireError as error:
            note(f"parts of {client} are left out: {error}")
            continue
        for part in parts:
            if CLIENT_NAME.fullmatch(part.recipient) and part.recipient != client:
                together[part.recipient, part.slot, part.owners].append(part.body)
    add = homomorphic.added if mode == "encrypted" else masked_parts.added
    found: dict[str, list[Part]] = defaultdict(list)
    for (recipient, slot, owners), bodies in sorted(together.items()):
        if len(bodies) != owners:
            note(f"a sum for {recipient} is left out: {len(bodies)} of its {owners} parts came")
            continue
        try:
            total = add(bodies)
        except WireError as error:
            note(f"a sum for {recipient} is left out: {error}")
            continue
        found[recipient].append(Part(recipient, slot, owners, total))
    return found
