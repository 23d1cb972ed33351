"""Public keys of the clients, told by themselves, which seal what they send to one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedtag.common.errors import ProtocolError
from fedtag.common.logs import Event, fields
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.phases import KEYS
from fedtag.server.protocol.phases import Phase

if TYPE_CHECKING:
    from fedtag.server.exchange.phases import Phases, Turn

ASK_KEYS = Phase(KEYS, "clients say who they are and which keys they have; once a run, and for newcomers")


class Directory:
    """Who has which keys; nothing of it is in a checkpoint, because a site may have drawn new ones.

    Attributes:
        keys: by client.
        told: what clients said beside their keys.
        unknown: why clients that are online have none, by client.
    """

    def __init__(self) -> None:
        self.keys: dict[str, PublicIdentity] = {}
        self.told: dict[str, Mapping[str, Any]] = {}
        self.unknown: dict[str, str] = {}

    def completed(self, phases: Phases, turn: Turn) -> list[int]:
        """The nodes that are online; those that have not said who they are, or have no keys yet, are asked.

        Raises:
            QuorumError: nobody has keys yet, and too few answered.
        """
        online = phases.online()
        strangers = [node for node in online if phases.names.get(node) not in self.keys]
        self.unknown = {}
        if not strangers:
            return online
        wanted = 0 if self.keys else None
        replies, self.unknown = phases.run(turn, ASK_KEYS, dict.fromkeys(strangers, ASK_KEYS), wanted=wanted)
        for client, reply in replies.items():
            try:
                self.keys[client] = PublicIdentity.from_json(reply.content.values.get(KEYS), client)
            except ProtocolError as error:
                phases.progress.note(
                    f"{client} can exchange nothing with its peers: {error}",
                    fields(Event.PEERS, round=turn.number, client=client, error="ProtocolError"),
                )
                self.unknown[client] = str(error)
            self.told[client] = reply.content.values
        return online

    def as_json(self) -> dict[str, dict[str, str]]:
        """The table that clients get."""
        return {client: identity.as_json() for client, identity in sorted(self.keys.items())}
