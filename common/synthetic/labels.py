"""The labels Y' of a condensed graph, fixed before its features are learned."""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

from fedtag.common.numerics.quotas import class_quotas


def condensed_size(num_nodes: int, ratio: float) -> int:
    """⌈r n⌉, without the rounding errors of r.

    Args:
        num_nodes: n of the original graph, at least 0.
        ratio: r in (0, 1].
    """
    return math.ceil(ratio * num_nodes - 1e-9)  # 0.07 * 100 is 7.000000000000001


def class_counts(labelled: Int[Tensor, " classes"], size: int) -> Int[Tensor, " classes"]:
    """How many condensed nodes each class gets: the shares of the labelled nodes, by largest remainder.

    They sum to max(size, classes present), and every present class gets at least one; none without a labelled
    node. (Jin et al., 2022, give the last class what is left, which is negative on small clients.)

    Args:
        labelled: training nodes of each class.
        size: condensed nodes wanted, at least 0.
    """
    present = labelled > 0
    places = max(size, int(present.sum()))
    # Condensed nodes are made and not chosen: a class may get more of them than it has labelled nodes.
    return class_quotas(labelled * places, places, present)


def condensed_labels(labelled: Int[Tensor, " classes"], size: int) -> Int[Tensor, " core"]:
    """Y' in the order of classes; arguments as of `class_counts`."""
    counts = class_counts(labelled, size)
    return torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts)
