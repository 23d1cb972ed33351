"""The server's side of a part, which stands around a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState


class ServerPart(ServerMethod):
    """A method with something around it: the same interface, and whatever is not the part's own goes to the method.

    The part keeps a section of the state, and values under the name of that section; the method sees neither. Phases
    that move this section are the part's own, and as they stand they do with it what a method's do with the model. A
    part overrides what it adds: steps before round 1, what clients are told, what comes of it.
    """

    section: str
    """Of the state; also the first part of its tensors' names in a released model."""

    def __init__(self, method: ServerMethod) -> None:
        self.method = method

    def steps(self, context: ServerContext) -> tuple[Phase, ...]:
        """The exchanges of the part itself before round 1; what stands around it has had its own by then."""
        return ()

    def start(self, agreement: Agreement, context: ServerContext) -> ServerState:
        """The part's own tensors and values before its first step."""
        return ServerState({})

    def own(self, state: ServerState) -> ServerState:
        """The part's own tensors and values."""
        return ServerState(state.section(self.section), state.values[self.section])

    def inner(self, state: ServerState) -> ServerState:
        """The state as the method knows it."""
        values = {name: value for name, value in state.values.items() if name != self.section}
        return ServerState(self._without_own(state.tensors), values)

    def joined(self, inner: ServerState, own: ServerState) -> ServerState:
        """What the method knows and what the part does."""
        tensors = {**inner.tensors, **prefixed(self.section, own.tensors)}
        return ServerState(tensors, {**inner.values, self.section: dict(own.values)})

    def owns(self, phase: Phase) -> bool:
        """Whether a phase is one of the part itself."""
        return phase.moves == self.section

    def preparation(self, context: ServerContext) -> tuple[Phase, ...]:
        return (*self.steps(context), *self.method.preparation(context))

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        return self.method.phases(round_number, context)

    def releasable(self, round_number: int, context: ServerContext) -> bool:
        return self.method.releasable(round_number, context)

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        return self.method.scoring_paths(context)

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        return self.joined(self.method.begin(agreement, context), self.start(agreement, context))

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        if self.owns(phase):
            return Content({} if state is None else prefixed(self.section, self.own(state).tensors))
        inner = None if state is None else self.inner(state)
        return self.method.instruct(inner, phase, client, context)

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        if self.owns(phase):
            return super().expected(state, phase, context)
        return self.method.expected(self.inner(state), phase, context)

    def learned(self, nodes: Mapping[str, int], classes: int, context: ServerContext) -> Mapping[str, int]:
        return self.method.learned(nodes, classes, context)

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        if self.owns(phase):
            return super().combine(state, phase, replies, aggregate, context)
        after, weights = self.method.combine(self.inner(state), phase, replies, aggregate, context)
        return self.joined(after, self.own(state)), weights

    def released(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.released(self.inner(state), context)

    def predicting(self, released: Mapping[str, Tensor], context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.predicting(self._without_own(released), context)

    def condensed(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.condensed(self.inner(state), context)

    def history(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        return self.method.history(self.inner(state), context)

    def guarantee(self, state: ServerState | None, context: ServerContext) -> Mapping[str, Any] | None:
        return self.method.guarantee(None if state is None else self.inner(state), context)

    def remark(self, state: ServerState, context: ServerContext) -> str:
        return self.method.remark(self.inner(state), context)

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        return self.method.documents(self.inner(state), context)

    def _without_own(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        own = f"{self.section}/"
        return {name: value for name, value in tensors.items() if not name.startswith(own)}
