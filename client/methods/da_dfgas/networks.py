"""Which network an instruction is about: the supernet, or that of an architecture; and whose architecture it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.da_dfgas.training import Context, logits_of, validation_halves
from fedtag.client.site.state import Remembered
from fedtag.client.train.batches import Batching
from fedtag.common.errors import RunError, WireError
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import DiscreteNetwork, discrete_network

KEPT = "architecture"
"""Under which a site keeps the one that it trained."""
BEYOND_CHANCE = 1.645
"""Standard errors of McNemar's test: a share of 5% of clients takes an architecture that is no better."""


def own_logits(context: Context) -> dict[str, Tensor]:
    """The logits that the client keeps of its own search; nothing if it never searched, or was not convinced."""
    remembered = context.memory.remembered()
    if remembered is None:
        return {}
    return {name: value for name, value in remembered.tensors.items() if is_architecture(name)}


def shared_architecture(context: Context, received: Mapping[str, Tensor]) -> Architecture:
    """That of the global logits."""
    return discretised(received, context.settings.path_gap)


def own_architecture(context: Context, received: Mapping[str, Tensor]) -> Architecture:
    """That of the logits that the client keeps; of the global ones, if it keeps none or all have the same."""
    own = own_logits(context) if context.settings.personal else {}
    return discretised(own or received, context.settings.path_gap)


def keep_architecture(architecture: Architecture, context: Context) -> None:
    """Remember, for predictions after the run, the architecture that the client trains."""
    context.memory.derived(KEPT, lambda: Remembered({}, architecture.as_json()))


def kept_architecture(context: Context) -> Architecture | None:
    """That of the network which the site trained in a run; None where it is not known what it kept.

    Raises:
        DataError: it has kept none.
        RunError: what it kept is damaged.
    """
    found = context.memory.derived(KEPT, lambda: Remembered({}, {}))
    if not found.values:
        return None
    try:
        return Architecture.from_json(found.values)
    except WireError as error:
        raise RunError(
            f"the architecture that the site kept is damaged ({error}): predict without its workspace"
        ) from error


def network(
    architecture: Architecture, received: Mapping[str, Tensor], data: SiteData, context: Context
) -> DiscreteNetwork:
    """The network of an architecture with global weights, on the site's device."""
    return discrete_network(architecture, received, context.config.model.dropout).to(data.device)


def convinces(
    after: Mapping[str, Tensor],
    received: Mapping[str, Tensor],
    batching: Batching,
    data: SiteData,
    context: Context,
) -> bool:
    """Whether the architecture of a client's own logits does better than the global one, by more than chance.

    Both are cut out of the same supernet and asked about half B of the validation nodes, on which no logits were
    searched. Of the nodes that one alone gets right, its own must have more, by `BEYOND_CHANCE` standard errors of
    their difference (McNemar, 1947).

    Args:
        after: the supernet after the client's search.
        received: the global one.
        batching: of the client's graph.
        data: of the client.
        context: of the round.
    """
    gap = context.settings.path_gap
    own, shared = discretised(after, gap), discretised(received, gap)
    judged = validation_halves(data, context).judged
    labels = data.graph.y[judged]
    ours, theirs = (
        logits_of(network(one, after, data, context), data, batching)[judged].argmax(1) == labels
        for one in (own, shared)
    )
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return won - lost > BEYOND_CHANCE * math.sqrt(won + lost)
