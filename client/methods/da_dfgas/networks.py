"""Which network an instruction is about: the supernet, or that of an architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from common.models.supernet.architecture import Architecture
from common.models.supernet.discretisation import discretised
from common.models.supernet.logits import is_architecture
from common.models.supernet.network import DiscreteNetwork, discrete_network

if TYPE_CHECKING:
    from client.session import Session


def own_logits(session: Session) -> dict[str, Tensor]:
    """The logits that the client's own search last led to; nothing if it never searched."""
    remembered = session.remembered()
    if remembered is None:
        return {}
    return {name: value for name, value in remembered.tensors.items() if is_architecture(name)}


def shared_architecture(session: Session, received: Mapping[str, Tensor]) -> Architecture:
    """That of the global logits."""
    return discretised(received, session.config.dadfgas.path_gap)


def own_architecture(session: Session, received: Mapping[str, Tensor]) -> Architecture:
    """That of the client's own logits; of the global ones, if it never searched or all have the same."""
    own = own_logits(session) if session.config.dadfgas.personal else {}
    return discretised(own or received, session.config.dadfgas.path_gap)


def network(session: Session, architecture: Architecture, received: Mapping[str, Tensor]) -> DiscreteNetwork:
    """The network of an architecture with global weights, on the session's device."""
    return discrete_network(architecture, received, session.config.model.dropout).to(session.device)
