"""Public keys of the clients, told by themselves, which seal what they send to one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.secure.phases import KEYS
from fedtag.common.wire.records import Reply
from fedtag.server.protocol.phases import Phase

ASK_KEYS = Phase(KEYS, "clients say who they are and which keys they have; once a run, and for newcomers")


class PeerList:
    """Who has which keys; nothing of it is in a checkpoint, because a site may have drawn new ones.

    Attributes:
        keys: by client.
        reported: what clients said beside their keys.
        unknown: why clients that are online have none, by client.
    """

    def __init__(self) -> None:
        self.keys: dict[str, PublicIdentity] = {}
        self.reported: dict[str, Mapping[str, Any]] = {}
        self.unknown: dict[str, str] = {}

    def introduced(self, replies: Mapping[str, Reply]) -> dict[str, str]:
        """Note the keys of those who answered; why those of some are none, by client."""
        wrong = {}
        for client, reply in replies.items():
            try:
                self.keys[client] = PublicIdentity.from_json(reply.content.values.get(KEYS), client)
            except ProtocolError as error:
                wrong[client] = str(error)
            self.reported[client] = reply.content.values
        self.unknown |= wrong
        return wrong

    def as_json(self) -> dict[str, dict[str, str]]:
        """The table that clients get."""
        return {client: identity.as_json() for client, identity in sorted(self.keys.items())}
