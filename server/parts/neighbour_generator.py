"""Any method whose clients mend their graphs with generated neighbours: the generator is trained before the model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.parameters import parameters_of
from fedtag.common.parts.neighbour_generator.model import initial_neighbour_generator
from fedtag.common.parts.neighbour_generator.names import EXCHANGE, GENERATE_PHASE, GENERATOR, GENERATOR_PART
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig
from fedtag.common.settings.registry import resolved
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm, update_forms
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

GENERATE = Phase(
    GENERATE_PHASE,
    "clients train the generator of missing neighbours on impaired graphs; federated averaging, all of it in round 1",
    gathers="step",
)


class Mending(ServerMethod):
    """Phases: `generate` in round 1, `neighbour-generator.rounds` times, and those of the method.

    While it is trained, the generator is the state's "model/": what all parts of a run move, mask and compare. Then
    it is "generator/" beside the tensors of the method, and goes to each client until this has answered once. In the
    values of the state, `method` are those of the method and `generator` our own: exchanges and their losses, what the
    method begins with, and who has the generator.
    """

    def __init__(self, method: ServerMethod) -> None:
        self.method = method

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        before = (
            (GENERATE,) * context.settings.own(NeighbourGeneratorConfig).rounds if round_number == 1 else ()
        )
        return (*before, *self.method.phases(round_number, context))

    def releasable(self, round_number: int, context: ServerContext) -> bool:
        return self.method.releasable(round_number, context)

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        return self.method.scoring_paths(context)

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        model = initial_neighbour_generator(
            agreement.dimension, context.settings.model.hidden, context.settings.seed
        )
        told = {**vars(agreement), "classes": list(agreement.classes)}
        values = {"generator": {"agreement": told, "losses": [], "holders": []}, "method": {}}
        return ServerState(prefixed("model", parameters_of(model)), values)

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        if state is None:
            return Content({}, {EXCHANGE: 1})
        own = state.values["generator"]
        if phase.name == GENERATE_PHASE:
            return Content(state.tensors, {EXCHANGE: len(own["losses"]) + 1})
        content = self.method.instruct(_inner(state), phase, client, context)
        if client in own["holders"]:
            return content
        more = prefixed(GENERATOR, state.section(GENERATOR))
        return replace(content, tensors={**content.tensors, **more})

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        if phase.name != GENERATE_PHASE:
            return self.method.expected(_inner(state), phase, context)
        return update_forms(state.section("model"))

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        own = state.values["generator"]
        if phase.name != GENERATE_PHASE:
            after, weights = self.method.combine(_inner(state), phase, replies, aggregate, context)
            holders = sorted({*own["holders"], *replies})
            return _joined(after, state.section(GENERATOR), {**own, "holders": holders}), weights
        generator = aggregate.moved or state.section("model")
        own = {**own, "losses": [*own["losses"], _mean_loss(replies)]}
        if len(own["losses"]) < context.settings.own(NeighbourGeneratorConfig).rounds:
            return ServerState(
                prefixed("model", generator), {**state.values, "generator": own}
            ), aggregate.weights
        told = own["agreement"]
        agreement = Agreement(**{**told, "classes": tuple(told["classes"])})
        return _joined(self.method.begin(agreement, context), generator, own), aggregate.weights

    def released(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The model of the method, and the generator, without which it would see other graphs than in training."""
        generator = prefixed(GENERATOR, state.section(GENERATOR))
        return {**self.method.released(_inner(state), context), **generator} if generator else {}

    def condensed(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.condensed(_inner(state), context)

    def history(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.history(_inner(state), context)

    def remark(self, state: ServerState, context: ServerContext) -> str:
        return self.method.remark(_inner(state), context)

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """Those of the method, and the mean loss of the clients in each exchange that trained the generator."""
        losses = {"losses": state.values["generator"]["losses"]}
        return {
            **self.method.documents(_inner(state), context),
            "neighbour-generator.json": json.dumps(losses, indent=1) + "\n",
        }


def method_of(config: RunConfig) -> ServerMethod:
    """The method of a run, with what its settings put around it.

    Clients of a method that sums nothing train generators of their own, of which the server knows nothing.

    Raises:
        ConfigError: there is no such method.
    """
    method: ServerMethod = resolved(config.spec.server, METHODS.origin(config.method).package)
    mends = GENERATOR_PART in config.part_names and config.spec.traits.sums
    return Mending(method) if mends else method


def _inner(state: ServerState) -> ServerState:
    """The state as the method knows it."""
    tensors = {name: value for name, value in state.tensors.items() if not name.startswith(f"{GENERATOR}/")}
    return ServerState(tensors, state.values.get("method", {}))


def _joined(inner: ServerState, generator: Mapping[str, Tensor], own: Mapping[str, object]) -> ServerState:
    tensors = {**inner.tensors, **prefixed(GENERATOR, generator)}
    return ServerState(tensors, {"method": dict(inner.values), "generator": dict(own)})


def _mean_loss(replies: Mapping[str, Reply]) -> float | None:
    """None where clients tell none, as with hidden statistics."""
    told = [
        reply.content.values["training"]["loss"]
        for reply in replies.values()
        if "training" in reply.content.values
    ]
    return math.fsum(told) / len(told) if told else None
