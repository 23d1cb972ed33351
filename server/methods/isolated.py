"""Isolated training on the server: it only learns scores."""

from __future__ import annotations

from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Agreement, ServerState

TRAIN = Phase("train", "clients train models of their own and score them")


class Isolated(ServerMethod):
    """Phases: `train`. There is no global model; each client's stays with it."""

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        return (TRAIN,)

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        return ServerState({})


METHOD = Isolated()
