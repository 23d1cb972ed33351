"""Sums over classes that carry noise for single training nodes (Gaussian mechanism; clipping of Abadi et al., 2016).

Neighbouring data differ in one training node, whose gradient and count are replaced by zero. Its features stay where
they are: in the rows that its neighbours' gradients are made of, and in sums of features over all nodes. A sum of
gradients, each clipped to S, moves by at most S in L2, the counts of classes by at most 1; each gets Gaussian noise of
the multiplier z. Nothing is left out for want of nodes, which would tell of a single one: the server leaves out classes
whose noisy counts are too small.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.context.run_context import RunContext
from fedtag.common.errors import ProtocolError
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.methods.fedgc.names import COUNTS, GRADIENT
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.numerics.noise import RandomBytes, gaussian, share_of_noise
from fedtag.common.secure.shares import threshold
from fedtag.common.synthetic.gradients import Weights, clipped_class_sums

WEIGHT_TOLERANCE = 1e-9


def clipped_sums(
    weights: Weights, graph: Graph, adjacency: Adjacency, bound: float, counted: bool
) -> dict[str, Tensor]:
    """Sums of clipped gradients over the labelled nodes of each class, and their numbers where these are asked for.

    Args:
        weights: θ.
        graph: of the site; its training mask says who is labelled. All of their neighbours are read: who is drawn
            would depend on who is labelled.
        adjacency: of its links.
        bound: S.
        counted: whether numbers are asked for.
    """
    rows, classes = graph.train_mask, graph.num_classes
    if bool(rows.any()):
        found = clipped_class_sums(weights, whole_batch(graph.x, adjacency, rows, graph.y), bound)
    else:
        found = tuple(weight.new_zeros(classes, *weight.shape) for weight in weights)
    sums = {f"{GRADIENT}/{place}": value for place, value in enumerate(found)}
    if counted:
        sums[COUNTS] = torch.bincount(graph.y[rows], minlength=classes).to(weights[0].dtype)
    return sums


def noised(
    sums: Mapping[str, Tensor], bound: float, share: float, generator: RandomBytes
) -> dict[str, Tensor]:
    """The same with Gaussian noise: on gradients in units of the bound, on counts in nodes.

    Args:
        sums: as of `clipped_sums`.
        bound: S.
        share: standard deviation in these units.
        generator: `entropy_generator()`; a seeded one in tests only.
    """
    found = {}
    for name, value in sums.items():
        unit = 1.0 if name == COUNTS else bound
        like = torch.zeros(value.shape, dtype=torch.float64)
        noise = gaussian({name: like}, share * unit, generator)[name]
        found[name] = value.double().cpu() + noise
    return found


def noise_share(context: RunContext[FedGCConfig]) -> float:
    """The standard deviation of the noise that a site adds itself, in units of what one node changes.

    In clear it is all of it: nobody need be trusted. Under masks each member whose part counts adds a part, so that the
    sum over the fewest members that are ever opened carries enough, even where members without weight are among these
    and some others reveal theirs.

    Raises:
        ProtocolError: members weigh differently, so that their parts of the noise would.
        ConfigError: no honest noise would be left.
    """
    settings = context.settings
    table = context.sum_weights
    if settings.dp_mode == "local" or table is None:
        return settings.dp_noise
    counted = [weight for weight in table.values() if weight > 0]
    if counted and max(counted) > min(counted) * (1 + WEIGHT_TOLERANCE):
        raise ProtocolError(
            f"members weigh from {min(counted):g} to {max(counted):g} in a sum with noise of all alike: the server "
            "needs aggregation.weights = uniform"
        )
    fewest = threshold(len(table)) - (len(table) - len(counted))
    return share_of_noise(settings.dp_noise, 1.0, fewest, context.config.privacy.dp.colluders)
