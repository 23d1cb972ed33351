"""FedC4 on the server: the models are averaged, and what clients show one another finds its way.

The server relays sealed letters. It learns who writes to whom, how much and how many nodes, and opens none.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedtag.common.methods.fedc4.names import NODES_PHASE, PORTRAITS_PHASE, TRAIN_PHASE
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.synthetic.labels import condensed_size
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.phases import Phase

PORTRAITS = Phase(
    PORTRAITS_PHASE,
    "clients condense and tell each other statistics, by which they form clusters; once a run",
    letters=True,
)
SHOWN = Phase(
    NODES_PHASE,
    "clients show peers of their cluster some of their condensed nodes; once a run",
    letters=True,
)
TRAIN = Phase(
    TRAIN_PHASE,
    "clients score, rebuild and train; statistics and nodes for the next round go out with the update",
    gathers="step",
    letters=True,
)
ALONE = Phase(
    TRAIN_PHASE,
    "clients score the received model and train it on their condensed graph",
    gathers="step",
)


class FedC4(ServerMethod):
    """Letters between clients. Phases: `portraits` and `nodes` before round 1, `train` in every round."""

    def preparation(self, context: ServerContext) -> tuple[Phase, ...]:
        return () if context.settings.own(FedC4Config).exchange == "off" else (PORTRAITS, SHOWN)

    def phases(self, round_number: int, context: ServerContext) -> tuple[Phase, ...]:
        return (ALONE if context.settings.own(FedC4Config).exchange == "off" else TRAIN,)

    def learned(self, nodes: Mapping[str, int], classes: int, context: ServerContext) -> Mapping[str, int]:
        """Its own condensed nodes, and all that others can have shown it in the rounds so far."""
        if context.settings.own(FedC4Config).exchange == "off":
            return nodes
        ratio = context.settings.ratio
        condensed = sum(max(condensed_size(count, ratio), classes) for count in nodes.values())
        return dict.fromkeys(nodes, condensed)


METHOD = FedC4()
