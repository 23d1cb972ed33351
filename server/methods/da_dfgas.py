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
from fedtag.server.methods.fedavg import FedAvg
from fedtag.server.methods.registry import Aggregate, Agreement, Kind, Phase, ServerState, TensorForm

LAG = 0.1
"""How far under the federation's median accuracy a client lags behind."""


class DaDfgas(FedAvg):
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

    kinds: Mapping[str, Kind] = {
        **FedAvg.kinds,
        "update": Kind(
            "the difference of the supernet's weights and architecture logits after local search; in retraining, "
            "of the weights that the client's architecture uses; under masks of all, and sums alone say how many "
            "clients use which, and what these weigh together"
        ),
        "architecture": Kind(
            "the operations and edges of the client's network, and its number of parameters"
        ),
        "searched": Kind("the supernet that the search left, to be scored once more"),
        "search_rounds": Kind("the number of rounds after which the search ended early"),
        "longer": Kind("whether the client is to train longer, since its accuracy lags behind"),
    }

    def is_personal(self, config: RunConfig) -> bool:
        return config.own(DaDfgasConfig).adaptive

    def releasable(self, round_number: int, config: RunConfig) -> bool:
        """A supernet is only released by a run that does nothing but search."""
        stages = stages_of(config)
        return not stages.searches(round_number) or stages.searches(config.rounds)

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        settings = config.own(DaDfgasConfig)
        if not settings.personal:
            return SUPERNET, SHARED
        return (SUPERNET, OWN, SHARED) if settings.scoring == "auto" else (SUPERNET, settings.scoring)

    def initial(self, agreement: Agreement, config: RunConfig) -> Parameters:
        return parameters_of(first_supernet(config, agreement.dimension, len(agreement.classes)))

    def begin(self, agreement: Agreement, config: RunConfig) -> ServerState:
        state = super().begin(agreement, config)
        return ServerState(
            state.tensors,
            {
                "round": 0,
                "used": _used(state.section("model"), stages_of(config).searches(1), config),
                "search_rounds": None,
                "entropies": [],
                "accuracies": {},
                "architectures": {},
            },
        )

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, config: RunConfig
    ) -> Content:
        content = super().instruct(state, phase, client, config)
        if state is None:
            return content
        if phase.name == USE:
            # What a client's architecture uses depends on no weights.
            logits = {name: v for name, v in state.section("model").items() if is_architecture(name)}
            return Content(prefixed("model", logits))
        told: dict[str, Any] = {}
        if state.values["search_rounds"] is not None:
            told["search_rounds"] = state.values["search_rounds"]
        if config.own(DaDfgasConfig).adaptive and phase.sums:
            told["longer"] = lags(state.values["accuracies"], client, config.train.accuracy_threshold)
        return Content(content.tensors, told)

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        forms = super().expected(state, phase)
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
        config: RunConfig,
    ) -> ServerState:
        """Eq. 11-13: weights move as the aggregation says, logits by the share of their mean change that γ_t leaves."""
        number = state.values["round"] + 1
        before = state.section("model")
        if aggregate.model:
            still = smoothing(
                number, config.own(DaDfgasConfig).smoothing, config.own(DaDfgasConfig).smoothing_rounds
            )
            logits = {
                name: before[name] + (1 - still) * change
                for name, change in aggregate.step.items()
                if is_architecture(name)
            }
            aggregate = Aggregate(aggregate.step, {**aggregate.model, **logits}, aggregate.weights)
        after = super().combine(state, phase, replies, aggregate, config)
        tensors = {name: value for name, value in after.tensors.items() if not name.startswith("searched/")}
        model = after.section("model")
        if after.section("average"):
            # What is averaged are weights; their architecture is that of the newest model.
            tensors |= prefixed("average", {n: v for n, v in model.items() if is_architecture(n)})
        ended, entropies = state.values["search_rounds"], state.values["entropies"]
        if stages_of(config, ended).searches(number):
            entropies = [*entropies, architecture_entropy(model)]
            if is_stable(entropies, config.own(DaDfgasConfig).stable_entropy):
                ended = number
        stages = stages_of(config, ended)
        restarts = stages.ends_search(number)
        if restarts:
            tensors = _restarted(model, config)
        values = {
            **after.values,
            **({"averaged": 0} if restarts else {}),
            "round": number,
            "used": _used(model, stages.searches(number + 1), config),
            "search_rounds": ended,
            "entropies": entropies,
            "accuracies": {**state.values["accuracies"], **_accuracies(replies)},
            "architectures": {**state.values["architectures"], **_architectures(replies)},
        }
        return ServerState(tensors, values)

    def documents(self, state: ServerState) -> Mapping[str, str]:
        """Each client's architecture as JSON and as a drawing, as far as clients tell them."""
        found: dict[str, str] = {}
        for client, told in sorted(state.values["architectures"].items()):
            found |= documents(f"architectures/{client}", told)
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


def lags(accuracies: Mapping[str, float], client: str | None, threshold: float) -> bool:
    """Whether a client's last accuracy is under the threshold; if that is 0, 0.1 under the median of all.

    A client that never told an accuracy does not lag behind.
    """
    if client is None or client not in accuracies:
        return False
    return accuracies[client] < (threshold or statistics.median(accuracies.values()) - LAG)


def _used(model: Mapping[str, Any], search: bool, config: RunConfig) -> str | list[str]:
    """What the updates of a round consist of, of the search or of retraining."""
    if search:
        return sorted(model)
    if config.own(DaDfgasConfig).personal:
        return "own"
    return sorted(used_names(discretised(model, config.own(DaDfgasConfig).path_gap)))


def _accuracies(replies: Mapping[str, Reply]) -> dict[str, float]:
    """ACC by client, from statistics that were screened."""
    told = {client: reply.content.values.get("statistics") or {} for client, reply in replies.items()}
    return {client: one["accuracy"] for client, one in told.items() if one.get("accuracy") is not None}


def _architectures(replies: Mapping[str, Reply]) -> dict[str, Any]:
    """The architectures that clients told, which were screened, with their numbers of parameters."""
    told = {client: reply.content.values.get("architecture") for client, reply in replies.items()}
    return {client: one for client, one in told.items() if one is not None}


METHOD = DaDfgas()
