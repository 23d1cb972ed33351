"""Counts from which every score is computed, so that clients' scores pool exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class ReliabilityBin:
    """The nodes whose confidence lies in one bin: how many, their mean confidence, the share that is correct.

    Both means are None over no node.
    """

    nodes: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Tally:
    """Confusion counts and calibration sums over a set of nodes.

    `confusion[i, j]` counts nodes of class i that were predicted as j. The bins split (0, 1] evenly by
    confidence and hold the number of nodes, the sum of confidences and the number of correct predictions.
    """

    confusion: Int[Tensor, "classes classes"]
    bin_nodes: Int[Tensor, " bins"]
    bin_confidence: Float[Tensor, " bins"]
    bin_correct: Int[Tensor, " bins"]

    @property
    def nodes(self) -> int:
        """How many nodes were counted."""
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float | None:
        """Correct over count; None over no node."""
        return int(self.confusion.trace()) / self.nodes if self.nodes else None

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 over the classes that occur as label or prediction; None over no node."""
        if not self.nodes:
            return None
        matrix = self.confusion.double()
        occurrences = matrix.sum(0) + matrix.sum(1)
        present = occurrences > 0
        f1 = 2 * matrix.diagonal()[present] / occurrences[present]
        return float(f1.mean())

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error (Naeini et al., 2015) over 15 equal bins; None over no node."""
        if not self.nodes:
            return None
        gaps = (self.bin_confidence.double() - self.bin_correct.double()).abs()
        return min(1.0, float(gaps.sum()) / self.nodes)

    @property
    def reliability(self) -> tuple[ReliabilityBin, ...]:
        """The calibration bins, lowest confidence first; empty over no node."""
        if not self.nodes:
            return ()
        columns = zip(
            self.bin_nodes.tolist(),
            self.bin_confidence.double().tolist(),
            self.bin_correct.double().tolist(),
            strict=True,
        )
        return tuple(reliability_bin(nodes, confidence, correct) for nodes, confidence, correct in columns)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.confusion + other.confusion,
            self.bin_nodes + other.bin_nodes,
            self.bin_confidence + other.bin_confidence,
            self.bin_correct + other.bin_correct,
        )


def tally(
    logits: Float[Tensor, "nodes classes"], y: Int[Tensor, " nodes"], mask: Bool[Tensor, " nodes"]
) -> Tally:
    """Count predictions on the nodes of `mask`, all of which carry a label."""
    classes = logits.shape[1]
    confidence, predicted = logits[mask].float().softmax(1).max(1)
    label = y[mask]
    confusion = torch.bincount(label * classes + predicted, minlength=classes**2).view(classes, classes)
    bins = (confidence * CALIBRATION_BINS).ceil().long().clamp(1, CALIBRATION_BINS) - 1
    correct = (label == predicted).long()
    return Tally(
        confusion.cpu(),
        torch.bincount(bins, minlength=CALIBRATION_BINS).cpu(),
        torch.bincount(bins, confidence.double(), minlength=CALIBRATION_BINS).float().cpu(),
        torch.bincount(bins, correct.double(), minlength=CALIBRATION_BINS).long().cpu(),
    )


def pooled(tallies: Iterable[Tally]) -> Tally | None:
    """The sum of all tallies; None of none."""
    total: Tally | None = None
    for one in tallies:
        total = one if total is None else total + one
    return total


def reliability_bin(nodes: int, confidence: float, correct: float) -> ReliabilityBin:
    """A bin from its number of nodes, and the sums of their confidences and of their correct predictions."""
    if not nodes:
        return ReliabilityBin(0, None, None)
    # Sums of confidences are rounded to float32, so they may exceed the number of nodes by a little.
    return ReliabilityBin(nodes, min(1.0, confidence / nodes), correct / nodes)


def pooled_bins(parts: Iterable[Sequence[ReliabilityBin]]) -> tuple[ReliabilityBin, ...]:
    """The bins over the nodes of all parts, which have equally many bins; empty of none."""
    pools = []
    for column in zip(*(bins for bins in parts if bins), strict=True):
        confidence, correct = (
            sum(one.nodes * (getattr(one, name) or 0.0) for one in column)
            for name in ("confidence", "accuracy")
        )
        pools.append(reliability_bin(sum(one.nodes for one in column), confidence, correct))
    return tuple(pools)
