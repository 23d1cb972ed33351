"""The counts of `tally` for many groups of nodes at once, without a look at any value."""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from torch import Tensor

from fedtag.common.numerics.ranking import grouped_rank_counts, occurrences
from fedtag.common.numerics.scores import CALIBRATION_BINS, judged

UNIT = 1 << 40
"""Confidences are added as whole numbers of so many parts, whose sum does not depend on the order."""


def grouped_counts(
    logits: Float[Tensor, "nodes classes"],
    label: Int[Tensor, " nodes"],
    group: Int[Tensor, " nodes"],
    groups: int,
    ranked: bool,
) -> dict[str, Tensor]:
    """Every field of a `Tally` for each group, along the first dimension.

    Args:
        logits: of the nodes that are counted.
        label: theirs.
        group: from 0 to groups - 1.
        groups: how many.
        ranked: whether ranks are counted.
    """
    classes = logits.shape[1]
    confidence, predicted, bins = judged(logits)
    binned = group * CALIBRATION_BINS + bins
    parts = (confidence.double().nan_to_num(0.0) * UNIT).round().long()

    def counted(place: Tensor, *shape: int, weight: Tensor | None = None) -> Tensor:
        return occurrences(place, groups * math.prod(shape), weight).view(groups, *shape)

    found = {
        "confusion": counted((group * classes + label) * classes + predicted, classes, classes),
        "bin_nodes": counted(binned, CALIBRATION_BINS),
        "bin_confidence": (counted(binned, CALIBRATION_BINS, weight=parts).double() / UNIT).float(),
        "bin_correct": counted(binned, CALIBRATION_BINS, weight=(label == predicted).long()),
    }
    if ranked:
        found["ranks"] = grouped_rank_counts(logits, label, group, groups).int()
    return found
