"""Counts from which every score is computed, so that clients' scores pool exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.numerics.ranking import RANK_BINS, occurrences, precision_areas, rank_counts, roc_areas

CALIBRATION_BINS = 15
LOCAL = "local"
"""The way of scoring of a model that local training has just led to, whose ranks are not counted."""


@dataclass(frozen=True)
class ReliabilityBin:
    """The nodes whose confidence lies in one bin: how many, their mean confidence, the share that is correct.

    Both means are None over no node.
    """

    nodes: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class over a set of nodes, fractions.

    Args:
        nodes: that belong to it.
        precision: None where no node is predicted as it.
        recall: None without a node of it.
        f1: None where it is neither label nor prediction.
        auroc, auprc: of its nodes against all others; None without such nodes, or without others.
    """

    nodes: int
    precision: float | None
    recall: float | None
    f1: float | None
    auroc: float | None
    auprc: float | None


@dataclass(frozen=True)
class Tally:
    """Confusion counts, calibration sums and ranks over a set of nodes.

    `confusion[i, j]` counts nodes of class i that were predicted as j. The bins split (0, 1] evenly by
    confidence and hold the number of nodes, the sum of confidences and the number of correct predictions. `ranks` are
    the histograms of `rank_counts`, from which the areas come; None where they were not counted.
    """

    confusion: Int[Tensor, "classes classes"]
    bin_nodes: Int[Tensor, " bins"]
    bin_confidence: Float[Tensor, " bins"]
    bin_correct: Int[Tensor, " bins"]
    ranks: Int[Tensor, "2 classes ranks"] | None = None

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
    def balanced_accuracy(self) -> float | None:
        """Mean recall over the classes that occur as label; None over no node."""
        return mean_defined(self.confusion.double().diagonal() / self.confusion.sum(1))

    @property
    def auroc(self) -> float | None:
        """Mean area under the ROC curves of the classes that have nodes of theirs and others.

        Of two classes it is that of the second one. None without such a class.
        """
        return None if self.ranks is None else mean_defined(of_interest(roc_areas(self.ranks)))

    @property
    def auprc(self) -> float | None:
        """Mean of the average precisions, of the same classes as in `auroc`."""
        return None if self.ranks is None else mean_defined(of_interest(precision_areas(self.ranks)))

    def value(self, metric: str) -> float | None:
        """The score that `evaluation.metric` names."""
        found: float | None = getattr(self, metric.replace("-", "_"))
        return found

    @property
    def classes(self) -> tuple[ClassScores, ...]:
        """The scores of each class, in the order of classes."""
        matrix = self.confusion.double()
        right, nodes, predicted = matrix.diagonal(), matrix.sum(1), matrix.sum(0)
        unknown = torch.full_like(right, torch.nan)
        areas = (
            (unknown, unknown) if self.ranks is None else (roc_areas(self.ranks), precision_areas(self.ranks))
        )
        columns = (right / predicted, right / nodes, 2 * right / (nodes + predicted), *areas)
        rows = torch.stack(columns, dim=1).tolist()
        return tuple(
            ClassScores(count, *(None if value != value else value for value in row))
            for count, row in zip(self.confusion.sum(1).tolist(), rows, strict=True)
        )

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
            # Of one client they are of 32 bits, which a sum over many may exceed.
            None if self.ranks is None or other.ranks is None else self.ranks.long() + other.ranks,
        )


def count_forms(path: str, classes: int) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shape and type of each field of a tally as it travels, by the field's name.

    Args:
        path: the way of scoring.
        classes: how many there are.
    """
    forms: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "confusion": ((classes, classes), torch.int64),
        "bin_nodes": ((CALIBRATION_BINS,), torch.int64),
        "bin_confidence": ((CALIBRATION_BINS,), torch.float32),
        "bin_correct": ((CALIBRATION_BINS,), torch.int64),
    }
    return forms if path == LOCAL else {**forms, "ranks": ((2, classes, RANK_BINS), torch.int32)}


def mean_defined(values: Float[Tensor, " values"]) -> float | None:
    """The mean of those that are numbers; None of none."""
    found = values[~values.isnan()]
    return float(found.mean()) if len(found) else None


def of_interest(areas: Float[Tensor, " classes"]) -> Float[Tensor, " some"]:
    """Of two classes the second one alone, as scikit-learn has it; else all."""
    return areas[1:] if len(areas) == 2 else areas


def judged(
    logits: Float[Tensor, "nodes classes"],
) -> tuple[Float[Tensor, " nodes"], Int[Tensor, " nodes"], Int[Tensor, " nodes"]]:
    """The confidence of each prediction, the class that is predicted, and the calibration bin."""
    confidence, predicted = logits.float().softmax(1).max(1)
    bins = (confidence * CALIBRATION_BINS).ceil().long().clamp(1, CALIBRATION_BINS) - 1
    return confidence, predicted, bins


def tally(
    logits: Float[Tensor, "nodes classes"],
    y: Int[Tensor, " nodes"],
    rows: Int[Tensor, " rows"] | Bool[Tensor, " nodes"],
    ranked: bool = False,
) -> Tally:
    """Count predictions, on the device of the logits, without waiting for it.

    Args:
        logits: of all nodes.
        y: their labels.
        rows: the nodes that count, all of which carry a label; a mask of them must be waited for.
        ranked: whether ranks are counted too.
    """
    classes, chosen, label = logits.shape[1], logits[rows], y[rows]
    confidence, predicted, bins = judged(chosen)
    sums = confidence.new_zeros(CALIBRATION_BINS, dtype=torch.float64)
    return Tally(
        occurrences(label * classes + predicted, classes**2).view(classes, classes),
        occurrences(bins, CALIBRATION_BINS),
        # In one order on every device, unlike a sum of floats that many threads add to.
        sums.index_put((bins,), confidence.double(), accumulate=True).float(),
        occurrences(bins, CALIBRATION_BINS, (label == predicted).long()),
        rank_counts(chosen, label).int() if ranked else None,
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
