"""Counts from which every score is computed, so that clients' scores pool exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

CALIBRATION_BINS = 15


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
