"""DA-DFGAS on the server: weights and architecture move together, then only the weights of what was found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.da_dfgas.course import first_supernet, stages_of
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.documents import documents
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import always_used, used_names
from fedtag.common.models.supernet.stages import (
    OWN,
    SHARED,
    SUPERNET,
    architecture_entropy,
    is_stable,
)
from fedtag.common.secure.phases import USE
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

LAG = 0.1
"""How far under the federation's median accuracy a client lags behind."""


class DaDfgas(ServerMethod):
    """Phases: `train`. State: "model/", the whole supernet, and of each client its last accuracy and architecture.

    Under secure aggregation clients with architectures of their own keep these to themselves, and answer `use` once: a
    sum that says how many of them use which tensor.

    After the search the weights start anew, with the initial values of the run: those that were trained as parts of
    a mixture have the wrong size alone. The model that the search left stays for one round, as "searched/", so that
    it is scored.

    A search that ended before its share of the rounds was over has their number as `search_rounds` in the values of
    the state, which has `entropies` of the global architecture after each of them.
    In the values of the state, `round` is the last complete one, and `used` the names of the tensors that the
    next round's updates have: all of them in the search, "own" where clients send those that they use.
    """

    def releasable(self, round_number: int, context: ServerContext) -> bool:
        """A supernet is only released by a run that does nothing but search."""
        stages = stages_of(context.settings)
        return not stages.searches(round_number) or stages.searches(context.settings.rounds)

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        own = context.settings.own(DaDfgasConfig)
        if not own.personal:
            return SUPERNET, SHARED
        return (SUPERNET, OWN, SHARED) if own.scoring == "auto" else (SUPERNET, own.scoring)

    def initial(self, agreement: Agreement, context: ServerContext) -> Parameters:
        return parameters_of(first_supernet(context.settings, agreement.dimension, len(agreement.classes)))

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        state, settings = super().begin(agreement, context), context.settings
        return ServerState(
            state.tensors,
            {
                "round": 0,
                "used": _used(state.section("model"), stages_of(settings).searches(1), settings),
                "search_rounds": None,
                "entropies": [],
                "accuracies": {},
                "architectures": {},
            },
        )

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        content = super().instruct(state, phase, client, context)
        if state is None:
            return content
        if phase.name == USE:
            # What a client's architecture uses depends on no weights.
            logits = {name: v for name, v in state.section("model").items() if is_architecture(name)}
            return Content(prefixed("model", logits))
        reported: dict[str, Any] = {}
        if state.values["search_rounds"] is not None:
            reported["search_rounds"] = state.values["search_rounds"]
        if context.settings.own(DaDfgasConfig).adaptive and phase.sums:
            threshold = context.settings.train.accuracy_threshold
            reported["longer"] = lagging(state.values["accuracies"], threshold)
        return Content(content.tensors, reported)

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        forms = super().expected(state, phase, context)
        used = state.values["used"]
        if used == "own":
            named = {name.removeprefix("update/"): form for name, form in forms.items()}
            return {
                f"update/{name}": TensorForm(form.shape, form.dtype, optional=not always_used(name))
                for name, form in named.items()
                if not is_architecture(name)
            }
        return {name: form for name, form in forms.items() if name.removeprefix("update/") in used}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        """Eq. 11-13: weights move as the aggregation says, logits by the share of their mean change that γ_t leaves."""
        settings, own = context.settings, context.settings.own(DaDfgasConfig)
        number = state.values["round"] + 1
        before = state.section("model")
        if aggregate.moved:
            still = smoothing(number, own.smoothing, own.smoothing_rounds)
            logits = {
                name: before[name] + (1 - still) * change
                for name, change in aggregate.step.items()
                if is_architecture(name)
            }
            aggregate = Aggregate(aggregate.step, {**aggregate.moved, **logits}, aggregate.weights)
        after, weights = super().combine(state, phase, replies, aggregate, context)
        tensors = {name: value for name, value in after.tensors.items() if not name.startswith("searched/")}
        model = after.section("model")
        if after.section("average"):
            # What is averaged are weights; their architecture is that of the newest model.
            tensors |= prefixed("average", {n: v for n, v in model.items() if is_architecture(n)})
        ended, entropies = state.values["search_rounds"], state.values["entropies"]
        if stages_of(settings, ended).searches(number):
            entropies = [*entropies, architecture_entropy(model)]
            if is_stable(entropies, own.stable_entropy):
                ended = number
        stages = stages_of(settings, ended)
        restarts = stages.ends_search(number)
        if restarts:
            tensors = _restarted(model, settings)
        values = {
            **after.values,
            **({"averaged": 0} if restarts else {}),
            "round": number,
            "used": _used(model, stages.searches(number + 1), settings),
            "search_rounds": ended,
            "entropies": entropies,
            "accuracies": {**state.values["accuracies"], **_accuracies(replies)},
            "architectures": {**state.values["architectures"], **_architectures(replies)},
        }
        return ServerState(tensors, values), weights

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """Each client's architecture as JSON and as a drawing, as far as clients tell them."""
        found: dict[str, str] = {}
        for client, reported in sorted(state.values["architectures"].items()):
            found |= documents(f"architectures/{client}", reported)
        return found


def _restarted(searched: Parameters, config: RunConfig) -> dict[str, Tensor]:
    """The state's tensors after the search: initial weights, the logits that it led to, and what it left."""
    classes, (_, dimension) = len(searched["classifier.bias"]), searched["first.weight"].shape
    start = parameters_of(first_supernet(config, dimension, classes))
    start |= {name: torch.ones_like(value) for name, value in start.items() if name.endswith(".gain")}
    model = {name: searched[name] if is_architecture(name) else value for name, value in start.items()}
    average = prefixed("average", model) if config.aggregation.average_decay else {}
    return {**prefixed("model", model), **average, **prefixed("searched", searched)}


def smoothing(round_number: int, start: float, rounds: float) -> float:
    """γ_t = 1 − (1 − γ_0) exp(−t / T), Eq. 12: the share of the global logits that stays in round t, up to 1."""
    return 1 - (1 - start) * math.exp(-round_number / rounds)


def lagging(accuracies: Mapping[str, float], threshold: float) -> list[str]:
    """The clients whose last accuracy is under the threshold; if that is 0, 0.1 under the median of all.

    A client that never told an accuracy does not lag behind.
    """
    if not accuracies:
        return []
    least = threshold or statistics.median(accuracies.values()) - LAG
    return sorted(client for client, accuracy in accuracies.items() if accuracy < least)


def _used(model: Mapping[str, Any], search: bool, config: RunConfig) -> str | list[str]:
    """What the updates of a round consist of, of the search or of retraining."""
    if search:
        return sorted(model)
    if config.own(DaDfgasConfig).personal:
        return "own"
    return sorted(used_names(discretised(model, config.own(DaDfgasConfig).path_gap)))


def _accuracies(replies: Mapping[str, Reply]) -> dict[str, float]:
    """ACC by client, from statistics that were screened."""
    tables = {client: reply.content.values.get("statistics") or {} for client, reply in replies.items()}
    return {client: one["accuracy"] for client, one in tables.items() if one.get("accuracy") is not None}


def _architectures(replies: Mapping[str, Reply]) -> dict[str, Any]:
    """The architectures that clients reported, which were screened, with their numbers of parameters."""
    reported = {client: reply.content.values.get("architecture") for client, reply in replies.items()}
    return {client: one for client, one in reported.items() if one is not None}


METHOD = DaDfgas()
