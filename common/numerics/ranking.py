"""How well scores put the nodes of a class before all others, from histograms that add up over clients.

A score is the softmax probability p of a class. What is told is how many nodes of the class, and how many
others, have theirs in each of 128 bins. These are equal in asinh(log(p / (1 - p)) / 0.25) and reach to odds of
e^60: at even odds one is 0.024 wide in log odds, at p = 0.01 and 0.99 it is 0.44. So the scores of a model that
has hardly learned, of a rare class, and of a model that is sure of itself fall into many of them. That takes 1024
bytes a class, whatever the number of nodes: 7 kB of seven classes, 205 kB of 200, whose confusion counts take
320 kB.

Nodes of one bin count as if they stood in a random order. Of the log odds of calibrated models, and of a tenth to
four times them, the areas differ from scikit-learn's on the scores themselves by 0.003 on average, and by at most
0.03 where the class has ten nodes or more.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

RANK_BINS = 128
BEND, REACH = 0.25, 60.0
"""Log odds about which bins begin to widen, and beyond which they all lie in the last one."""
BLOCK = 1 << 22
"""Scores that are counted at once."""


def rank_bins(logits: Float[Tensor, "nodes classes"]) -> Int[Tensor, "nodes classes"]:
    """The bin of each node's score for each class, 0 for the lowest scores."""
    log_p = logits.double().log_softmax(1)
    odds = log_p - torch.log(-torch.expm1(log_p))
    place = torch.asinh(odds / BEND) / math.asinh(REACH / BEND)
    bins = ((place + 1) / 2 * RANK_BINS).nan_to_num(nan=0.0).floor()
    return bins.clamp(0, RANK_BINS - 1).long()


def occurrences(
    places: Int[Tensor, " values"], size: int, weight: Int[Tensor, " values"] | None = None
) -> Int[Tensor, " size"]:
    """How often each place from 0 to size - 1 occurs, or the sum of the weights there, as `bincount` of whole numbers.

    A device need not say first what the largest place is.
    """
    total = torch.zeros(size, dtype=torch.long, device=places.device)
    return total.scatter_add_(0, places, torch.ones_like(places) if weight is None else weight)


def rank_counts(
    logits: Float[Tensor, "nodes classes"], label: Int[Tensor, " nodes"]
) -> Int[Tensor, "2 classes bins"]:
    """`grouped_rank_counts` of one group."""
    return grouped_rank_counts(logits, label, torch.zeros_like(label), 1)[0]


def grouped_rank_counts(
    logits: Float[Tensor, "nodes classes"],
    label: Int[Tensor, " nodes"],
    group: Int[Tensor, " nodes"],
    groups: int,
) -> Int[Tensor, "groups 2 classes bins"]:
    """How many nodes have their score for a class in a bin: at 0 those of other classes, at 1 those of the class.

    Args:
        logits: of each node.
        label: of each node, at least 0.
        group: of each node, from 0 to groups - 1.
        groups: how many.
    """
    classes = logits.shape[1]
    column = torch.arange(classes, device=logits.device)
    total = torch.zeros(groups * 2 * classes * RANK_BINS, dtype=torch.long, device=logits.device)
    rows = max(1, BLOCK // classes)
    for part, own, of in zip(logits.split(rows), label.split(rows), group.split(rows), strict=True):
        belongs = (own.unsqueeze(1) == column) + 2 * of.unsqueeze(1)
        place = (belongs * classes + column) * RANK_BINS + rank_bins(part)
        total += occurrences(place.flatten(), total.numel())
    return total.view(groups, 2, classes, RANK_BINS)


def roc_areas(counts: Int[Tensor, "2 classes bins"]) -> Float[Tensor, " classes"]:
    """Area under the ROC curve of each class against all others: P(score of a node of it > that of another one).

    Two nodes in one bin count one half (Hanley and McNeil, 1982).

    Returns:
        NaN for a class to which no node belongs, or every one.
    """
    negatives, positives = counts.double()
    below = negatives.cumsum(1) - negatives
    pairs = positives.sum(1) * negatives.sum(1)
    areas = (positives * (below + negatives / 2)).sum(1) / pairs.where(pairs > 0, torch.nan)
    return areas.clamp(0, 1)


def precision_areas(counts: Int[Tensor, "2 classes bins"]) -> Float[Tensor, " classes"]:
    """Average precision of each class against all others: the mean, over its nodes, of the precision down to them.

    That is the area under the precision-recall curve, without interpolation. In a bin of k nodes, m of them positive,
    below t positives among a nodes, the expectation over random orders is, of the sum over its positives,
    m/k [(t + 1) H + (m - 1)/(k - 1) (k - (a + 1) H)], with H = 1/(a + 1) + … + 1/(a + k).

    Returns:
        NaN for a class to which no node belongs, or every one.
    """
    negatives, positives = counts.double().flip(2)
    size = positives + negatives
    found = positives.cumsum(1) - positives
    above = size.cumsum(1) - size
    harmonic = torch.digamma(above + size + 1) - torch.digamma(above + 1)
    others = (positives - 1) / (size - 1).clamp_min(1)
    sums = positives / size.clamp_min(1) * ((found + 1) * harmonic + others * (size - (above + 1) * harmonic))
    defined = (positives.sum(1) > 0) & (negatives.sum(1) > 0)
    areas = sums.sum(1) / positives.sum(1).where(defined, torch.nan)
    # Of a perfect order rounding makes more than 1.
    return areas.clamp(0, 1)
