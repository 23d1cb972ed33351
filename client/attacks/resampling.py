"""Intervals of an area that was measured on some nodes of some models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from fedtag.client.attacks.measures import resampled_areas

CONFIDENCE = 0.95
CELLS = 4_000_000
"""Numbers of a block of draws at most."""


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float


def mean_area(
    members: Float[np.ndarray, "models members"],
    others: Float[np.ndarray, "models others"],
    weights: Float[np.ndarray, " others"],
    areas: Float[np.ndarray, " models"],
    draws: int,
    generator: np.random.Generator,
) -> Estimate:
    """The mean area over models, with a percentile interval of a bootstrap that is crossed (Owen, 2007).

    Every draw takes members, non-members and models anew, each with replacement, and the same nodes for all
    models: the interval holds for other nodes of the same kind and other models of the same making. Of one
    model only nodes are drawn.

    Args:
        members, others: scores by model.
        weights: of the non-members; a drawn node keeps its own.
        areas: of each model on the nodes as they are.
        draws: at least 1.
        generator: of the draws.
    """
    models, count = members.shape
    size = others.shape[1]
    block = max(1, CELLS // (count + size))
    drawn = np.concatenate(
        [
            _drawn(members, others, weights, min(block, draws - start), generator)
            for start in range(0, draws, block)
        ]
    )
    chosen = generator.integers(0, models, (draws, models))
    means = np.take_along_axis(drawn, chosen, axis=1).mean(1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(float(areas.mean()), float(low), float(high))


def _drawn(
    members: Float[np.ndarray, "models members"],
    others: Float[np.ndarray, "models others"],
    weights: Float[np.ndarray, " others"],
    draws: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, "draws models"]:
    count, size = members.shape[1], len(weights)
    member_counts = generator.multinomial(count, np.full(count, 1 / count), draws).astype(float)
    other_weights = generator.multinomial(size, np.full(size, 1 / size), draws) * weights
    return np.stack(
        [
            resampled_areas(mine, theirs, member_counts, other_weights)
            for mine, theirs in zip(members, others, strict=True)
        ],
        axis=1,
    )
