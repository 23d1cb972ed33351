"""Any method whose clients mend their graphs with generated neighbours: the generator is trained before the model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.parts.neighbour_generator.model import initial_neighbour_generator
from fedtag.common.parts.neighbour_generator.names import EXCHANGE, GENERATE_PHASE, GENERATOR
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.part import ServerPart
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

FILE = "neighbour-generator.json"
GENERATE = Phase(
    GENERATE_PHASE,
    "clients train the generator of missing neighbours on impaired graphs; federated averaging, all of it before round "
    "1",
    gathers="step",
    moves=GENERATOR,
)


class Mending(ServerPart):
    """Steps before round 1: `generate`, `neighbour-generator.rounds` times.

    Once it is trained, the generator goes to each client until this has answered once. The part's values are the mean
    loss of each exchange that trained it, and who has it.
    """

    section = GENERATOR

    def steps(self, context: ServerContext) -> tuple[Phase, ...]:
        return (GENERATE,) * context.settings.own(NeighbourGeneratorConfig).rounds

    def start(self, agreement: Agreement, context: ServerContext) -> ServerState:
        settings = context.settings
        model = initial_neighbour_generator(agreement.dimension, settings.model.hidden, settings.seed)
        return ServerState(parameters_of(model), {"losses": [], "holders": []})

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        own = None if state is None else self.own(state)
        if self.owns(phase):
            # To the clients it is the model that they train.
            tensors = prefixed("model", own.tensors) if own else {}
            return Content(tensors, {EXCHANGE: len(own.values["losses"]) + 1 if own else 1})
        content = super().instruct(state, phase, client, context)
        if own is None:
            return content
        values = {**content.values, GENERATOR: fingerprint(own.tensors)}
        lacks = client not in own.values["holders"]
        tensors = {**content.tensors, **(prefixed(GENERATOR, own.tensors) if lacks else {})}
        return replace(content, tensors=tensors, values=values)

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        after, weights = super().combine(state, phase, replies, aggregate, context)
        own = self.own(after)
        if self.owns(phase):
            values = {**own.values, "losses": [*own.values["losses"], _mean_loss(replies)]}
        else:
            values = {**own.values, "holders": sorted({*own.values["holders"], *replies})}
        return self.joined(self.inner(after), ServerState(own.tensors, values)), weights

    def released(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The model of the method, and the generator, without which it would see other graphs than in training."""
        return {**super().released(state, context), **prefixed(GENERATOR, self.own(state).tensors)}

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """Those of the method, and the mean loss of the clients in each exchange that trained the generator."""
        losses = {"losses": self.own(state).values["losses"]}
        return {**super().documents(state, context), FILE: json.dumps(losses, indent=1) + "\n"}


def around(method: ServerMethod, settings: RunConfig) -> ServerMethod:
    """A method with a generator around it.

    Clients of a method that sums nothing train generators of their own, of which the server knows nothing.
    """
    return Mending(method) if settings.spec.traits.sums else method


def _mean_loss(replies: Mapping[str, Reply]) -> float | None:
    """None where clients tell none, as with hidden statistics."""
    losses = [
        reply.content.values["training"]["loss"]
        for reply in replies.values()
        if "training" in reply.content.values
    ]
    return math.fsum(losses) / len(losses) if losses else None
