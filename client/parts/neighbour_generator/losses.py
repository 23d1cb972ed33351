"""What the generator of missing neighbours is trained to do on an impaired graph."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from fedtag.client.parts.neighbour_generator.impairment import Impaired
from fedtag.common.numerics.ragged import Ragged, concatenated_ranges
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator, owners

BLOCK = 1 << 22
"""Numbers that a block of differences may have while neighbours are matched."""


def generator_loss(
    model: NeighbourGenerator, graph: Impaired, most: int, generator: torch.Generator
) -> Float[Tensor, ""]:
    """L^n = L^d + L^f / s (Zhang et al., 2021, Eq. 3), s being the mean squared length of the visible nodes' features.

    The division is ours: by it the two parts weigh the same whatever the scale of the features, L^f / s being 1 where
    all neighbours are generated as zeros. 0 without a visible node.

    Args:
        model: the generator.
        graph: with what it lacks.
        most: neighbours a node, in counts and in features.
        generator: of the noise, on the graph's device.
    """
    z = model.encoded(graph.x, graph.adjacency)
    if not len(z):
        return z.sum()
    counts = model.counts(z)
    owner = owners(torch.where(graph.lacking.width > 0, counts, 0), most)
    features = model.features(z, owner, generator)
    targets = graph.hidden_x[nearest(features.detach(), owner, graph.lacking, graph.hidden_x)]
    scale = graph.x.square().sum(1).mean()
    return count_loss(counts, graph.lacking, most) + feature_loss(features, targets, len(z)) / torch.where(
        scale > 0, scale, 1
    )


def count_loss(counts: Float[Tensor, " visible"], lacking: Ragged, most: int) -> Float[Tensor, ""]:
    """L^d: the mean smooth L1 distance of the counts to those of the hidden neighbours.

    A node that lacks more than `most` counts as one that lacks so many, because no more are generated.
    """
    return functional.smooth_l1_loss(counts, lacking.width.clamp_max(most).to(counts.dtype))


def feature_loss(
    features: Float[Tensor, "generated dim"], targets: Float[Tensor, "generated dim"], visible: int
) -> Float[Tensor, ""]:
    """L^f: Σ_v Σ_p ‖x̃_v^p − x_u‖² / |V̄|, u being the hidden neighbour of v that is nearest to x̃_v^p.

    Args:
        features: x̃.
        targets: x_u of each.
        visible: |V̄|.
    """
    return (features - targets).square().sum() / visible


def nearest(
    features: Float[Tensor, "generated dim"],
    owner: Int[Tensor, " generated"],
    lacking: Ragged,
    hidden_x: Float[Tensor, "hidden dim"],
    block: int = BLOCK,
) -> Int[Tensor, " generated"]:
    """For each generated neighbour the hidden neighbour of its owner that is nearest to it; the first of equal ones.

    Each is matched for itself, so that several may be nearest to the same.

    Args:
        features: of the generated neighbours.
        owner: the node of each, which lacks at least one.
        lacking: hidden neighbours by node.
        hidden_x: features of these.
        block: numbers that the differences may have at once; the neighbours of one node are never parted.

    Returns:
        Rows of `hidden_x`.
    """
    width = lacking.width[owner]
    before = width.cumsum(0) - width
    pairs = max(1, block // max(1, hidden_x.shape[1]))
    sizes = torch.unique_consecutive(before // pairs, return_counts=True)[1].tolist()
    found = [
        _nearest(mine, lacking.ptr[nodes], lacking.width[nodes], lacking.index, hidden_x)
        for mine, nodes in zip(features.split(sizes), owner.split(sizes), strict=True)
    ]
    return torch.cat(found) if found else owner


def _nearest(
    features: Float[Tensor, "generated dim"],
    start: Int[Tensor, " generated"],
    width: Int[Tensor, " generated"],
    index: Int[Tensor, " entries"],
    hidden_x: Float[Tensor, "hidden dim"],
) -> Int[Tensor, " generated"]:
    row = torch.repeat_interleave(torch.arange(len(width), device=width.device), width)
    candidate = index[concatenated_ranges(start, width)]
    distance = (features[row] - hidden_x[candidate]).square().sum(1)
    least = distance.new_full((len(width),), torch.inf).scatter_reduce(0, row, distance, "amin")
    best = (distance == least[row]).nonzero().flatten()
    first = torch.full_like(width, len(row)).scatter_reduce(0, row[best], best, "amin")
    return candidate[first]
