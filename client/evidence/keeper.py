"""What can be asked of the evidence of a method that keeps any: its budgets, and whether predictions rest on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.evidence.faithfulness import Outcomes
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import NodeId
from fedtag.client.evidence.verification import Budgets
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS, MethodSpec


@dataclass(frozen=True)
class Measured:
    """What was measured at one site.

    Args:
        targets: positions of the measured nodes.
        outcomes: with the model as it is.
        without_bypass: with the bypass views at zero under every condition; None if the model has none.
        sizes: by name, one number a target: selected and available nodes, chunks, tokens.
        guarantees: of all nodes, in plain types.
        margins: top-B margin of every node's chunk scores.
    """

    targets: tuple[int, ...]
    outcomes: Outcomes
    without_bypass: Outcomes | None
    sizes: Mapping[str, NDArray[np.int64]]
    guarantees: dict[str, Any]
    margins: NDArray[np.float64]


class EvidenceKeeper(Protocol):
    """What `evidence` of a specification names."""

    def budgets(self, config: RunConfig) -> Budgets:
        """How much evidence a node has at most in a run."""
        ...

    def targets(self, data: SiteData, count: int, seed: int) -> tuple[int, ...]:
        """At most so many labelled test nodes of a site, on which is measured."""
        ...

    def measure(
        self,
        released: ReleasedModel,
        targets: Sequence[int],
        seed: int,
        data: SiteData,
        context: RunContext[Any],
    ) -> Measured:
        """Predict anew without the evidence, from it alone, and the same for other chunks.

        Raises:
            ConfigError: the site has no texts to mask.
        """
        ...

    def by_node(self, measured: Measured, node_ids: Sequence[NodeId]) -> dict[NodeId, NodeFaithfulness]:
        """What was measured, for each node that it was measured on."""
        ...


def keeper_of(method: MethodSpec) -> EvidenceKeeper | None:
    """What can be asked of a method's evidence; None where it keeps none."""
    if not method.evidence:
        return None
    return cast(EvidenceKeeper, METHODS.resolved(method, method.evidence))


def budgets_of(config: RunConfig) -> Budgets:
    """Those of a run; the defaults where its method has none."""
    keeper = keeper_of(config.spec)
    return Budgets() if keeper is None else keeper.budgets(config)
