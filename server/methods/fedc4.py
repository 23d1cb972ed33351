"""FedC4 on the server: FedAvg of the models, and the way for what clients show one another.

The server relays sealed letters. It learns who writes to whom, how much and how many nodes, and opens none.
"""

from __future__ import annotations

from collections.abc import Mapping

from fedtag.common.config import RunConfig
from fedtag.common.methods.fedc4.names import NODES, NODES_PHASE, PORTRAIT, PORTRAITS_PHASE, TRAIN_PHASE
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.server.methods.fedavg import FedAvg
from fedtag.server.methods.registry import Kind, Phase, ServerState, TensorForm

PORTRAITS = Phase(
    PORTRAITS_PHASE,
    "clients condense and tell each other statistics, by which they form clusters; in round 1 alone",
    letters=True,
)
SHOWN = Phase(
    NODES_PHASE,
    "clients show peers of their cluster some of their condensed nodes; in round 1 alone",
    letters=True,
)
TRAIN = Phase(
    TRAIN_PHASE,
    "clients score, rebuild and train; statistics and nodes for the next round go out with the update",
    sums=True,
    letters=True,
)
ALONE = Phase(
    TRAIN_PHASE, "clients score the received model and train it on their condensed graph", sums=True
)


class FedC4(FedAvg):
    """FedAvg with letters between clients. Phases: `portraits` and `nodes` in round 1, `train` in every round."""

    condenses = True
    kinds: Mapping[str, Kind] = {
        **FedAvg.kinds,
        "update": Kind("the difference of the model after training on the rebuilt graph"),
        PORTRAIT: Kind("mean of the embeddings of condensed nodes, and their norms or projections"),
        NODES: Kind("features and labels of condensed nodes"),
    }

    def phases(self, round_number: int, config: RunConfig) -> tuple[Phase, ...]:
        if config.own(FedC4Config).exchange == "off":
            return (ALONE,)
        return (PORTRAITS, SHOWN, TRAIN) if round_number == 1 else (TRAIN,)

    def expected(self, state: ServerState, phase: Phase) -> Mapping[str, TensorForm]:
        return super().expected(state, phase) if phase.name == TRAIN_PHASE else {}


METHOD = FedC4()
