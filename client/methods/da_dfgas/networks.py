"""Which network an instruction is about: the supernet, or that of an architecture; and whose architecture it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from fedtag.client.methods.da_dfgas.training import logits_of, validation_halves
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import DiscreteNetwork, discrete_network

if TYPE_CHECKING:
    from fedtag.client.context.session import Session


BEYOND_CHANCE = 1.645
"""Standard errors of McNemar's test: a share of 5% of clients takes an architecture that is no better."""


def own_logits(session: Session) -> dict[str, Tensor]:
    """The logits that the client keeps of its own search; nothing if it never searched, or was not convinced."""
    remembered = session.remembered()
    if remembered is None:
        return {}
    return {name: value for name, value in remembered.tensors.items() if is_architecture(name)}


def shared_architecture(session: Session, received: Mapping[str, Tensor]) -> Architecture:
    """That of the global logits."""
    return discretised(received, session.config.own(DaDfgasConfig).path_gap)


def own_architecture(session: Session, received: Mapping[str, Tensor]) -> Architecture:
    """That of the logits that the client keeps; of the global ones, if it keeps none or all have the same."""
    own = own_logits(session) if session.config.own(DaDfgasConfig).personal else {}
    return discretised(own or received, session.config.own(DaDfgasConfig).path_gap)


def network(session: Session, architecture: Architecture, received: Mapping[str, Tensor]) -> DiscreteNetwork:
    """The network of an architecture with global weights, on the session's device."""
    return discrete_network(architecture, received, session.config.model.dropout).to(session.device)


def convinces(session: Session, after: Mapping[str, Tensor], received: Mapping[str, Tensor]) -> bool:
    """Whether the architecture of a client's own logits does better than the global one, by more than chance.

    Both are cut out of the same supernet and asked about half B of the validation nodes, on which no logits were
    searched. Of the nodes that one alone gets right, its own must have more, by `BEYOND_CHANCE` standard errors of
    their difference (McNemar, 1947).

    Args:
        session: of the client.
        after: the supernet after the client's search.
        received: the global one.
    """
    gap = session.config.own(DaDfgasConfig).path_gap
    own, shared = discretised(after, gap), discretised(received, gap)
    judged = validation_halves(session).judged
    labels = session.graph.y[judged]
    ours, theirs = (
        logits_of(network(session, one, after), session)[judged].argmax(1) == labels for one in (own, shared)
    )
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return won - lost > BEYOND_CHANCE * math.sqrt(won + lost)
