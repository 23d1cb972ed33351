"""FedAvg and FedProx on the server: the combined update moves the global model."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.methods.registry import (
    Aggregate,
    Agreement,
    Kind,
    Phase,
    ServerState,
    TensorForm,
    update_forms,
)
from fedtag.server.strategies.mean import running_average

TRAIN = Phase("train", "clients score the received model and train it; one exchange a round", sums=True)


class FedAvg:
    """Phases: `train`. State: "model/" and, if a running average is scored, "average/"."""

    condenses = False
    keeps_evidence = False
    kinds: Mapping[str, Kind] = {
        "model": Kind("the global model"),
        "average": Kind("the running average of the global model"),
        "update": Kind("the difference between the locally trained and the received model"),
    }

    def phases(self, round_number: int, config: RunConfig) -> tuple[Phase, ...]:
        return (TRAIN,)

    def releasable(self, round_number: int, config: RunConfig) -> bool:
        return True

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        return ("graph",)

    def initial(self, agreement: Agreement, config: RunConfig) -> Parameters:
        """The parameters with which every client starts."""
        classes = len(agreement.classes)
        return parameters_of(initial_backbone(config.model, agreement.dimension, classes, config.seed))

    def begin(self, agreement: Agreement, config: RunConfig) -> ServerState:
        model = self.initial(agreement, config)
        tensors = prefixed("model", model)
        if config.aggregation.average_decay:
            tensors |= prefixed("average", model)
        return ServerState(tensors)

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, config: RunConfig
    ) -> Content:
        return Content(state.tensors if state else {})

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        return update_forms(state.section("model"))

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        config: RunConfig,
    ) -> ServerState:
        if not aggregate.model:
            return state
        model = aggregate.model
        tensors = prefixed("model", model)
        average = state.section("average")
        if average:
            count = state.values.get("averaged", 0) + 1
            decay = config.aggregation.average_decay
            tensors |= prefixed("average", running_average(average, model, decay, count))
            return ServerState(tensors, {"averaged": count})
        return ServerState(tensors)

    def released(self, state: ServerState) -> Mapping[str, Tensor]:
        return state.section("average") or state.section("model")

    def condensed(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        return {}

    def history(self, state: ServerState, config: RunConfig) -> Mapping[str, Tensor]:
        return {}

    def is_personal(self, config: RunConfig) -> bool:
        return False

    def remark(self, state: ServerState, config: RunConfig) -> str:
        return ""

    def documents(self, state: ServerState) -> Mapping[str, str]:
        return {}


METHOD = FedAvg()
