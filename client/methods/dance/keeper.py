"""What can be asked of DANCE's evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.evidence.keeper import Measured
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import NodeId
from fedtag.client.evidence.verification import Budgets
from fedtag.client.methods.dance.measurement import chosen_targets, measure, node_faithfulness
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.common.config import RunConfig
from fedtag.common.methods.dance.settings import DanceConfig


class Keeper:
    """See `EvidenceKeeper`."""

    def budgets(self, config: RunConfig) -> Budgets:
        own = config.own(DanceConfig)
        return Budgets((1, own.one_hop_budget, own.two_hop_budget), own.chunk_budget)

    def targets(self, data: SiteData, count: int, seed: int) -> tuple[int, ...]:
        return chosen_targets(data, count, seed)

    def measure(
        self,
        released: ReleasedModel,
        targets: Sequence[int],
        seed: int,
        data: SiteData,
        context: RunContext[Any],
    ) -> Measured:
        return measure(released, targets, seed, data, context)

    def by_node(self, measured: Measured, node_ids: Sequence[NodeId]) -> dict[NodeId, NodeFaithfulness]:
        return node_faithfulness(measured, node_ids)


KEEPER = Keeper()
