"""The server of FedGC: it averages the model of self-training, then learns one condensed graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.methods.fedgc.names import (
    CONDENSE_PHASE,
    CONDENSED,
    COUNTS,
    FEATURES,
    GRADIENT,
    GRAPH,
    LABELLED,
    MATCHED,
    MOMENTS,
    NODES,
    SEEN,
    SQUARES,
    TEACHER,
    THETA,
    TRAIN_PHASE,
    TRAINED,
    TUNED,
    UNIT,
)
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import is_scored, teaches, teaching_rounds
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import Parameters, fingerprint, parameters_of
from fedtag.common.randomness import derive_seed
from fedtag.common.synthetic.gradients import initial_weights
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.methods.fedgc.condensation import Sums, as_it_stands, begun, moved, taught
from fedtag.server.methods.fedgc.course import condensation_document, noted
from fedtag.server.methods.fedgc.noise import TOLD, asked, dimension_of, guarantee, is_private, with_counts
from fedtag.server.methods.fedgc.unmatched import (
    UNMATCHED,
    check_some_matched,
    enough_in_all,
    still_unmatched,
    unmatched_remark,
)
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

TEACH = Phase(TRAIN_PHASE, "clients score and train the model of self-training", gathers="step")
CONDENSE = Phase(
    CONDENSE_PHASE,
    "clients score the model of the condensed graph, and tell sums of gradients by class",
    gathers="sum",
)
GRAPH_TENSORS = "condensed"


class FedGC(ServerMethod):
    """Phases: `train` in the rounds of self-training, `condense` in all others.

    State: "model/", which is scored: the self-trained one, then that of the condensed graph; "teacher/", the
    self-trained model when it is ready; "condensed/", all that the condensed graph needs to be learned further. In
    the values, `round` is the last complete one, `matched` which classes have enough labelled nodes in all,
    `prepared` the clients that have made what they need of the self-trained model, `classes` and `names`
    those that there are, `unmatched` those of which no gradient was told so far.
    """

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        return (TEACH if teaches(round_number, context.settings) else CONDENSE,)

    def releasable(self, round_number: int, context: ServerContext) -> bool:
        """The self-trained model is not what a run releases."""
        return not teaches(round_number, context.settings)

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        # A fine-tuned model is at least as good on validation, and the first of equals counts.
        tuned = (TUNED,) if context.settings.own(FedGCConfig).fine_tune_steps else ()
        return (*tuned, CONDENSED, GRAPH)

    def initial(self, agreement: Agreement, context: ServerContext) -> Parameters:
        if teaching_rounds(context.settings.own(FedGCConfig)):
            classes = len(agreement.classes)
            return parameters_of(initial_teacher(context.settings, agreement.dimension, classes))
        return super().initial(agreement, context)

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        own, classes = context.settings.own(FedGCConfig), len(agreement.classes)
        theta = initial_weights(
            own.matching_model, agreement.dimension, own.hidden, classes, torch.Generator()
        )
        values = {
            "round": 0,
            "matched": None,
            "prepared": [],
            "classes": classes,
            "names": list(agreement.classes),
            "dimension": agreement.dimension,
            "theta": [list(weight.shape) for weight in theta],
        }
        return ServerState(super().begin(agreement, context).tensors, values)

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        settings, number = context.settings, state.values["round"] + 1 if state else 1
        if teaches(number, settings):
            return Content(prefixed("model", state.section("model")) if state else {})
        values: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        if phase.name == CONDENSE_PHASE:
            values[THETA] = _theta(number, settings)
            values[MATCHED] = state.values["matched"] if state else None
            values[MOMENTS] = state is None or not state.section(GRAPH_TENSORS)
        if state is None:
            return Content(tensors, values)
        teacher = state.section(TEACHER)
        if teacher:
            values[TEACHER] = fingerprint(teacher)
            if client not in state.values["prepared"]:
                tensors |= prefixed(TEACHER, teacher)
        if not teaches(number - 1, settings) and is_scored(number - 1, settings):
            tensors |= prefixed("model", state.section("model"))
        return Content(tensors, values)

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        if phase.name != CONDENSE_PHASE:
            return super().expected(state, phase, context)
        values, classes = state.values, state.values["classes"]
        shapes: dict[str, tuple[int, ...]] = {
            f"{GRADIENT}/{place}": (classes, *shape) for place, shape in enumerate(values["theta"])
        }
        fresh, private = not state.section(GRAPH_TENSORS), is_private(context.settings)
        if not private:
            shapes |= dict.fromkeys((COUNTS, LABELLED, TRAINED), (classes,))
        elif fresh:
            shapes[COUNTS] = (classes,)
        shapes[NODES] = (1,)
        if fresh:
            shapes |= {**dict.fromkeys((FEATURES, SQUARES), (values["dimension"],)), SEEN: (1,)}
        return {f"update/{name}": TensorForm(shape, torch.float32) for name, shape in shapes.items()}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        settings, number = context.settings, state.values["round"] + 1
        values = {**state.values, "round": number}
        if phase.name == TRAIN_PHASE:
            after, weights = super().combine(state, phase, replies, aggregate, context)
            ready = after.section("model") if number == teaching_rounds(settings.own(FedGCConfig)) else {}
            return ServerState({**after.tensors, **prefixed(TEACHER, ready)}, values), weights
        # Who did not answer may have lost what it made of the self-trained model, and gets it again.
        values["prepared"] = sorted(replies)
        graph = state.section(GRAPH_TENSORS)
        if is_private(settings):
            values[TOLD] = asked(values, not graph)
        if not aggregate.step:
            return ServerState(_without_sums(state, settings), values), aggregate.weights
        scale, step = contributors(aggregate, replies, settings), aggregate.step
        sums = Sums.of(with_counts(step, values, scale, settings) if is_private(settings) else step, scale)
        values["matched"] = enough_in_all(sums, settings)
        if not bool(sums.matched.any()):
            if not graph:
                check_some_matched(values, sums, len(replies), settings)
            return ServerState(_without_sums(state, settings), values), aggregate.weights
        values[UNMATCHED] = still_unmatched(values, sums, settings)
        graph, distances = moved(graph or begun(sums, settings), sums, _theta(number, settings), settings)
        values |= noted(values, number, sums, distances)
        model = state.section("model")
        if is_scored(number, settings):
            model = parameters_of(taught(as_it_stands(graph, settings), values["classes"], settings))
        tensors = {
            **prefixed("model", model),
            **prefixed(TEACHER, state.section(TEACHER)),
            **prefixed(GRAPH_TENSORS, graph),
        }
        return ServerState(tensors, values), aggregate.weights

    def condensed(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        graph = state.section(GRAPH_TENSORS)
        if not graph:
            return {}
        # What was learned from nodes with pseudo-labels alone does without the model that gave these.
        alone = context.settings.own(FedGCConfig).learn_from == "pseudo"
        teacher = {} if alone else prefixed(TEACHER, state.section(TEACHER))
        return {**prefixed("graph", as_it_stands(graph, context.settings).tensors), **teacher}

    def released(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The model; with a bottleneck also the self-trained one, by which features are transformed for it."""
        teacher = state.section(TEACHER) if context.settings.own(FedGCConfig).bottleneck else {}
        return {**super().released(state, context), **prefixed(TEACHER, teacher)}

    def history(self, state: ServerState, context: ServerContext) -> Mapping[str, Tensor]:
        """The condensed graph as it stands; in the rounds of self-training, the model of these."""
        if not context.settings.own(FedGCConfig).keep_states:
            return {}
        if teaches(state.values["round"], context.settings):
            return prefixed(TEACHER, state.section("model"))
        graph = state.section(GRAPH_TENSORS)
        return prefixed("graph", as_it_stands(graph, context.settings).tensors) if graph else {}

    def guarantee(self, state: ServerState | None, context: ServerContext) -> Mapping[str, Any] | None:
        if state is None:
            return guarantee(None, 0, context.settings)
        return guarantee(state.values.get(TOLD, 0), dimension_of(state.values), context.settings)

    def remark(self, state: ServerState, context: ServerContext) -> str:
        return unmatched_remark(state.values, context.settings)

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        return condensation_document(state.values)


def _without_sums(state: ServerState, settings: RunConfig) -> Mapping[str, Tensor]:
    """The tensors where no sum came; before there is a condensed graph, an untrained model is scored."""
    if state.section(GRAPH_TENSORS):
        return state.tensors
    values = state.values
    fresh = initial_backbone(settings, values["dimension"], values["classes"])
    return {**state.tensors, **prefixed("model", parameters_of(fresh))}


def _theta(round_number: int, settings: RunConfig) -> int:
    return derive_seed(settings.seed, round_number, "matching model")


def contributors(aggregate: Aggregate, replies: Mapping[str, Reply], settings: RunConfig) -> float:
    """What makes a sum over nodes of the mean that came: the training nodes behind it, or the clients by their unit."""
    if settings.aggregation.weights == "samples":
        return float(
            sum(replies[client].content.values["sizes"]["train_nodes"] for client in aggregate.weights)
        )
    return len(aggregate.weights) / UNIT


METHOD = FedGC()
