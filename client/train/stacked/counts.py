"""The counts of `tally` for many groups of nodes at once, without a look at any value."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.common.numerics.ranking import BLOCK, RANK_BINS, rank_bins
from fedtag.common.numerics.scores import CALIBRATION_BINS

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
    confidence, predicted = logits.float().softmax(1).max(1)
    bins = (confidence * CALIBRATION_BINS).ceil().long().clamp(1, CALIBRATION_BINS) - 1
    binned, one = group * CALIBRATION_BINS + bins, torch.ones_like(group)
    parts = (confidence.double().nan_to_num(0.0) * UNIT).round().long()

    def counted(place: Tensor, what: Tensor, *shape: int) -> Tensor:
        total = what.new_zeros(groups, *shape)
        total.view(-1).scatter_add_(0, place, what)
        return total

    found = {
        "confusion": counted((group * classes + label) * classes + predicted, one, classes, classes),
        "bin_nodes": counted(binned, one, CALIBRATION_BINS),
        "bin_confidence": (counted(binned, parts, CALIBRATION_BINS).double() / UNIT).float(),
        "bin_correct": counted(binned, (label == predicted).long(), CALIBRATION_BINS),
    }
    if ranked:
        found["ranks"] = _ranks(logits, label, group, groups)
    return found


def _ranks(logits: Tensor, label: Tensor, group: Tensor, groups: int) -> Int[Tensor, "groups 2 classes bins"]:
    classes = logits.shape[1]
    column = torch.arange(classes, device=logits.device)
    total = torch.zeros(groups, 2, classes, RANK_BINS, dtype=torch.int32, device=logits.device)
    rows = max(1, BLOCK // classes)
    for part, own, of in zip(logits.split(rows), label.split(rows), group.split(rows), strict=True):
        belongs = (own.unsqueeze(1) == column).long()
        place = (((of.unsqueeze(1) * 2 + belongs) * classes + column) * RANK_BINS + rank_bins(part)).flatten()
        total.view(-1).scatter_add_(0, place, torch.ones_like(place, dtype=torch.int32))
    return total
