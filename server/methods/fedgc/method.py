"""The server of FedGC (papers/fedgc.txt): it averages the model of self-training, then learns one condensed graph."""

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
from fedtag.common.parts.neighbour_exchange.names import PHASES as EXCHANGE
from fedtag.common.randomness import derive_seed
from fedtag.common.synthetic.gradients import initial_weights
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.methods.fedavg import FedAvg
from fedtag.server.methods.fedgc.condensation import Sums, as_it_stands, begun, moved, taught
from fedtag.server.methods.fedgc.course import condensation_document, noted
from fedtag.server.methods.fedgc.unmatched import (
    UNMATCHED,
    check_some_matched,
    enough_in_all,
    still_unmatched,
    unmatched_remark,
)
from fedtag.server.methods.registry import Aggregate, Agreement, Kind, Phase, ServerState, TensorForm
from fedtag.server.parts.neighbour_exchange import (
    KINDS,
    after_neighbours,
    neighbour_document,
    neighbour_forms,
    neighbour_phases,
    neighbour_sums,
)

TEACH = Phase(TRAIN_PHASE, "clients score and train the model of self-training", sums=True)
CONDENSE = Phase(
    CONDENSE_PHASE,
    "clients score the model of the condensed graph, and tell sums of gradients by class",
    sums=True,
    moves=False,
)
GRAPH_TENSORS = "condensed"


class FedGC(FedAvg):
    """Phases: those of the exchange of neighbour sums in round 1; `train` in the rounds of self-training, `condense` in
    all others.

    State: "model/", which is scored: the self-trained one, then that of the condensed graph; "teacher/", the
    self-trained model when it is ready; "condensed/", all that the condensed graph needs to be learned further. In
    the values, `round` is the last complete one, `matched` which classes have enough labelled nodes in all,
    `prepared` the clients that have made what they need of the self-trained model, `classes` and `names`
    those that there are, `unmatched` those of which no gradient was told so far.
    """

    condenses = True
    kinds: Mapping[str, Kind] = {
        **FedAvg.kinds,
        "update": Kind(
            "in self-training, the difference of the model after local training; then sums over the labelled nodes "
            "of a class: gradients, counts, at the beginning features and their squares"
        ),
        TEACHER: Kind("the self-trained model, or its fingerprint"),
        THETA: Kind("the seed of a matching model"),
        MATCHED: Kind("which classes have enough labelled nodes in all"),
        MOMENTS: Kind("whether sums of features are asked for"),
        **KINDS,
    }

    def phases(self, round_number: int, config: RunConfig) -> tuple[Phase, ...]:
        first = neighbour_phases(config) if round_number == 1 else ()
        return (*first, TEACH if teaches(round_number, config) else CONDENSE)

    def releasable(self, round_number: int, config: RunConfig) -> bool:
        """The self-trained model is not what a run releases."""
        return not teaches(round_number, config)

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        # A fine-tuned model is at least as good on validation, and the first of equals counts.
        tuned = (TUNED,) if config.own(FedGCConfig).fine_tune_steps else ()
        return (*tuned, CONDENSED, GRAPH)

    def initial(self, agreement: Agreement, config: RunConfig) -> Parameters:
        classes = len(agreement.classes)
        if teaching_rounds(config.own(FedGCConfig)):
            return parameters_of(initial_teacher(config, agreement.dimension, classes))
        return parameters_of(initial_backbone(config.model, agreement.dimension, classes, config.seed))

    def begin(self, agreement: Agreement, config: RunConfig) -> ServerState:
        theta = initial_weights(
            config.own(FedGCConfig).matching_model,
            agreement.dimension,
            config.own(FedGCConfig).hidden,
            len(agreement.classes),
            torch.Generator(),
        )
        values = {
            "round": 0,
            "matched": None,
            "prepared": [],
            "classes": len(agreement.classes),
            "names": list(agreement.classes),
            "dimension": agreement.dimension,
            "theta": [list(weight.shape) for weight in theta],
            "bottleneck": config.own(FedGCConfig).bottleneck,
        }
        return ServerState(super().begin(agreement, config).tensors, values)

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, config: RunConfig
    ) -> Content:
        if phase.name in EXCHANGE:
            return neighbour_sums(state, phase.name, client)
        number = state.values["round"] + 1 if state else 1
        if teaches(number, config):
            return Content(prefixed("model", state.section("model")) if state else {})
        values: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        if phase.name == CONDENSE_PHASE:
            values[THETA] = self._theta(number, config)
            values[MATCHED] = state.values["matched"] if state else None
            values[MOMENTS] = state is None or not state.section(GRAPH_TENSORS)
        if state is None:
            return Content(tensors, values)
        teacher = state.section(TEACHER)
        if teacher:
            values[TEACHER] = fingerprint(teacher)
            if client not in state.values["prepared"]:
                tensors |= prefixed(TEACHER, teacher)
        if not teaches(number - 1, config) and is_scored(number - 1, config):
            tensors |= prefixed("model", state.section("model"))
        return Content(tensors, values)

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        if phase.name in EXCHANGE:
            return neighbour_forms(phase.name)
        if phase.name != CONDENSE_PHASE:
            return super().expected(state, phase)
        values, classes = state.values, state.values["classes"]
        shapes: dict[str, tuple[int, ...]] = {
            f"{GRADIENT}/{place}": (classes, *shape) for place, shape in enumerate(values["theta"])
        }
        shapes |= dict.fromkeys((COUNTS, LABELLED, TRAINED), (classes,))
        shapes[NODES] = (1,)
        if not state.section(GRAPH_TENSORS):
            shapes |= dict.fromkeys((FEATURES, SQUARES), (values["dimension"],))
        return {f"update/{name}": TensorForm(shape, torch.float32) for name, shape in shapes.items()}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        config: RunConfig,
    ) -> ServerState:
        if phase.name in EXCHANGE:
            return after_neighbours(state, phase.name, replies, config)
        number = state.values["round"] + 1
        values = {**state.values, "round": number}
        if phase.name == TRAIN_PHASE:
            tensors = dict(super().combine(state, phase, replies, aggregate, config).tensors)
            if number == teaching_rounds(config.own(FedGCConfig)):
                tensors |= prefixed(TEACHER, Content(tensors).section("model"))
            return ServerState(tensors, values)
        # Who did not answer may have lost what it made of the self-trained model, and gets it again.
        values["prepared"] = sorted(replies)
        if not aggregate.step:
            return ServerState(self._without_sums(state, config), values)
        sums = Sums.of(aggregate.step, contributors(aggregate, replies, config))
        graph = state.section(GRAPH_TENSORS)
        values["matched"] = enough_in_all(sums, config)
        if not bool(sums.matched.any()):
            if not graph:
                check_some_matched(values, sums, len(replies), config)
            return ServerState(self._without_sums(state, config), values)
        values[UNMATCHED] = still_unmatched(values, sums, config)
        graph, distances = moved(graph or begun(sums, config), sums, self._theta(number, config), config)
        values |= noted(values, number, sums, distances)
        model = state.section("model")
        if is_scored(number, config):
            model = parameters_of(taught(as_it_stands(graph, config), values["classes"], config))
        return ServerState(
            {
                **prefixed("model", model),
                **prefixed(TEACHER, state.section(TEACHER)),
                **prefixed(GRAPH_TENSORS, graph),
            },
            values,
        )

    def condensed(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        graph = state.section(GRAPH_TENSORS)
        if not graph:
            return {}
        teacher = prefixed(TEACHER, state.section(TEACHER))
        return {**prefixed("graph", as_it_stands(graph, config).tensors), **teacher}

    def released(self, state: ServerState) -> Mapping[str, Tensor]:
        """The model; with a bottleneck also the self-trained one, by which features are transformed for it."""
        teacher = state.section(TEACHER) if state.values["bottleneck"] else {}
        return {**super().released(state), **prefixed(TEACHER, teacher)}

    def history(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        """The condensed graph as it stands; in the rounds of self-training, the model of these."""
        if not config.own(FedGCConfig).keep_states:
            return {}
        if teaches(state.values["round"], config):
            return prefixed(TEACHER, state.section("model"))
        graph = state.section(GRAPH_TENSORS)
        return prefixed("graph", as_it_stands(graph, config).tensors) if graph else {}

    def remark(self, state: ServerState, config: RunConfig) -> str:
        return unmatched_remark(state.values, config)

    def documents(self, state: ServerState) -> Mapping[str, str]:
        return {**neighbour_document(state), **condensation_document(state.values)}

    def _without_sums(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        """The tensors where no sum came; before there is a condensed graph, an untrained model is scored."""
        if state.section(GRAPH_TENSORS):
            return state.tensors
        values = state.values
        fresh = initial_backbone(config.model, values["dimension"], values["classes"], config.seed)
        return {**state.tensors, **prefixed("model", parameters_of(fresh))}

    def _theta(self, round_number: int, config: RunConfig) -> int:
        return derive_seed(config.seed, round_number, "matching model")


def contributors(aggregate: Aggregate, replies: Mapping[str, Reply], config: RunConfig) -> float:
    """What makes a sum over nodes of the mean that came: the training nodes behind it, or the clients by their unit."""
    if config.aggregation.weights == "samples":
        return float(
            sum(replies[client].content.values["sizes"]["train_nodes"] for client in aggregate.weights)
        )
    return len(aggregate.weights) / UNIT
