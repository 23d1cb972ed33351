"""The server's side of a method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.numerics.running_average import running_average
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm, update_forms
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

TRAIN = Phase("train", "clients score the received model and train it; one exchange a round", gathers="step")


class ServerMethod:
    """A method on the server: a plain object without memory, whose state is passed in and comes back.

    As it stands it moves the run's backbone by the clients' updates. The state has "model/" and, if a running average
    is scored, "average/". A method overrides what is different: the model it begins with, what clients are told, how
    contributions combine, or its phases.

    `begin` needs what only the clients know (classes, feature dimension), so it is called when the first
    replies have come; until then the state is None and clients start from the seed.
    """

    def preparation(self, context: ServerContext) -> tuple[Phase, ...]:
        """The exchanges before round 1, in order; after each there is a checkpoint."""
        return ()

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        """The exchanges of a round, in order; scores of the last round's model come with the first."""
        return (TRAIN,)

    def releasable(self, round_number: int, context: ServerContext) -> bool:
        """Whether the model of a round may be the one that is chosen by validation and released."""
        return True

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        """The ways of scoring that clients report; the better one on validation counts, the first of equals."""
        return ("graph",)

    def initial(self, agreement: Agreement, context: ServerContext) -> Parameters:
        """The parameters with which every client starts."""
        return parameters_of(initial_backbone(context.settings, agreement.dimension, len(agreement.classes)))

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        """The state before round 1."""
        model = self.initial(agreement, context)
        average = prefixed("average", model) if context.settings.aggregation.average_decay else {}
        return ServerState({**prefixed("model", model), **average})

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        """What a client gets; `client` is None while its name is unknown."""
        return Content(state.tensors if state else {})

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        """The tensors of a contribution to the phase: all but the optional ones, or none at all.

        Under secure aggregation the phase `use` (common/secure/phases.py) comes before the first sum that has optional
        ones; clients answer it with an update of the same names.
        """
        return {} if phase.gathers == "nothing" else update_forms(state.section(phase.moves))

    def learned(self, nodes: Mapping[str, int], classes: int, context: ServerContext) -> Mapping[str, int]:
        """From how many nodes each client may learn in a round at the most; the steps that it may take follow.

        Args:
            nodes: that clients say they have, of all that ever took part.
            classes: of the federation.
            context: of the run.

        Returns:
            by client: its own ones, of which a condensed graph has no more.
        """
        return nodes

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        """The state after a phase, and the weights with which contributions went into it.

        `replies` are the contributions; under secure aggregation they hold no update. `aggregate` is what these came
        to.
        """
        if not aggregate.moved:
            return state, aggregate.weights
        tensors = {**state.tensors, **prefixed(phase.moves, aggregate.moved)}
        average = state.section("average")
        if not average or phase.moves != "model":
            return ServerState(tensors, state.values), aggregate.weights
        count = state.values.get("averaged", 0) + 1
        decay = context.settings.aggregation.average_decay
        tensors |= prefixed("average", running_average(average, aggregate.moved, decay, count))
        return ServerState(tensors, {**state.values, "averaged": count}), aggregate.weights

    def released(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The model that is scored and released; empty if models stay with the clients."""
        return state.section("average") or state.section("model")

    def predicting(self, released: Mapping[str, Tensor], context: ServerContext) -> Mapping[str, Tensor]:
        """The tensors of a released model without those that only make what it reads."""
        return released

    def condensed(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The condensed graph behind the model that is scored, as it is released; empty where there is none."""
        return {}

    def history(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """What the run directory keeps of a scored round for audits over rounds; empty where that is not asked for."""
        return {}

    def guarantee(self, state: ServerState | None, context: ServerContext) -> Mapping[str, Any] | None:
        """What noise of the method's own guarantees, as a table for summary.json; None where it adds none.

        Validation then chooses nothing, and no exchange may move a section of the state by updates, which that noise
        does not cover.

        Args:
            state: at the end of a run; None before it, for all that a run will tell.
            context: of the run.

        Raises:
            ConfigError: what computes it is not installed.
        """
        return None

    def remark(self, state: ServerState, context: ServerContext) -> str:
        """What a person should know of a state that is complete but not as intended; empty where it is."""
        return ""

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """What the method adds to the directory of a finished run: texts by their relative paths."""
        return {}


def course(method: ServerMethod, rounds: int, context: ServerContext) -> tuple[Phase, ...]:
    """All exchanges of a method until so many rounds are complete, in order."""
    numbers = range(1, rounds + 1)
    in_rounds = (phase for number in numbers for phase in method.phases(number, context))
    return (*method.preparation(context), *in_rounds)
