"""Isolated training on the server: it only learns scores."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Content, Reply
from fedtag.server.methods.registry import Aggregate, Agreement, Kind, Phase, ServerState, TensorForm

TRAIN = Phase("train", "clients train models of their own and score them")


class Isolated:
    """Phases: `train`. There is no global model; each client's stays with it."""

    condenses = False
    keeps_evidence = False
    kinds: Mapping[str, Kind] = {}

    def phases(self, round_number: int, config: RunConfig) -> tuple[Phase, ...]:
        return (TRAIN,)

    def releasable(self, round_number: int, config: RunConfig) -> bool:
        return True

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        return ("graph",)

    def begin(self, agreement: Agreement, config: RunConfig) -> ServerState:
        return ServerState({})

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, config: RunConfig
    ) -> Content:
        return Content()

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        return {}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        config: RunConfig,
    ) -> ServerState:
        return state

    def released(self, state: ServerState) -> Mapping[str, Tensor]:
        return {}

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


METHOD = Isolated()
