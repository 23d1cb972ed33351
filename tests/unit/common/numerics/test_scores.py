from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from fedtag.common.numerics.scores import CALIBRATION_BINS, Tally, pooled, pooled_bins, tally


@st.composite
def predictions(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits, labels (-1 outside the mask) and a mask with at least one node."""
    nodes, classes = draw(st.integers(1, 30)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    logits = torch.from_numpy(
        (draw(st.sampled_from([0.1, 3, 40])) * rng.standard_normal((nodes, classes))).astype(np.float32)
    )
    mask = torch.from_numpy(rng.random(nodes) < 0.7)
    mask[rng.integers(nodes)] = True
    y = torch.where(mask, torch.from_numpy(rng.integers(0, classes, nodes)), -1)
    return logits, y, mask


def brute_force_ece(logits: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> float:
    probabilities = logits[mask].softmax(1)
    confidence = probabilities.max(1).values.tolist()
    right = (probabilities.argmax(1) == y[mask]).tolist()
    total = 0.0
    for k in range(CALIBRATION_BINS):
        low, high = np.float32(k), np.float32(k + 1)
        inside = [
            i for i, c in enumerate(confidence) if low < np.float32(c) * np.float32(CALIBRATION_BINS) <= high
        ]
        if inside:
            gap = np.mean([confidence[i] for i in inside]) - np.mean([right[i] for i in inside])
            total += len(inside) / len(confidence) * abs(gap)
    return total


@given(predictions())
def test_scores_equal_those_of_scikit_learn(data: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    logits, y, mask = data
    counts = tally(logits, y, mask)
    label, predicted = y[mask].numpy(), logits[mask].argmax(1).numpy()
    classes = list(range(logits.shape[1]))
    assert counts.nodes == int(mask.sum())
    np.testing.assert_array_equal(
        counts.confusion.numpy(), confusion_matrix(label, predicted, labels=classes)
    )
    assert counts.accuracy == pytest.approx(accuracy_score(label, predicted))
    assert counts.macro_f1 == pytest.approx(f1_score(label, predicted, average="macro", zero_division=0))
    assert counts.calibration_error == pytest.approx(brute_force_ece(logits, y, mask), abs=1e-5)
    assert int(counts.bin_nodes.sum()) == counts.nodes
    assert int(counts.bin_correct.sum()) == int(counts.confusion.trace())


@given(predictions(), st.integers(1, 4))
def test_pooling_equals_counting_the_union(
    data: tuple[torch.Tensor, torch.Tensor, torch.Tensor], parts: int
) -> None:
    logits, y, mask = data
    share = torch.arange(len(y)) % parts
    split = pooled(tally(logits, y, mask & (share == part)) for part in range(parts))
    whole = tally(logits, y, mask)
    assert split is not None
    assert torch.equal(split.confusion, whole.confusion)
    assert torch.equal(split.bin_nodes, whole.bin_nodes)
    assert torch.equal(split.bin_correct, whole.bin_correct)
    torch.testing.assert_close(split.bin_confidence, whole.bin_confidence)
    assert (split.accuracy, split.macro_f1) == (whole.accuracy, whole.macro_f1)


@given(predictions())
def test_bins_make_up_the_scores(data: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    logits, y, mask = data
    counts = tally(logits, y, mask)
    confidence, predicted = logits[mask].softmax(1).max(1)
    for place, part in enumerate(counts.reliability):
        scaled = confidence * CALIBRATION_BINS
        inside = (scaled > place) & (scaled <= place + 1)
        assert part.nodes == int(inside.sum())
        if part.nodes:
            right = (predicted == y[mask])[inside].double()
            assert part.confidence == pytest.approx(float(confidence[inside].double().mean()), abs=1e-5)
            assert part.accuracy == pytest.approx(float(right.mean()))
        else:
            assert (part.confidence, part.accuracy) == (None, None)
    gaps = [one.nodes * abs((one.confidence or 0) - (one.accuracy or 0)) for one in counts.reliability]
    assert sum(gaps) / counts.nodes == pytest.approx(counts.calibration_error, abs=1e-6)


@given(predictions(), st.integers(1, 4))
def test_pooled_bins_are_those_of_the_union(
    data: tuple[torch.Tensor, torch.Tensor, torch.Tensor], parts: int
) -> None:
    logits, y, mask = data
    share = torch.arange(len(y)) % parts
    pooled_parts = pooled_bins(tally(logits, y, mask & (share == part)).reliability for part in range(parts))
    for one, other in zip(pooled_parts, tally(logits, y, mask).reliability, strict=True):
        assert one.nodes == other.nodes
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
        assert one.accuracy == pytest.approx(other.accuracy)
    assert pooled_bins([(), ()]) == ()


def test_no_node_has_no_score() -> None:
    empty = tally(torch.zeros(3, 2), torch.full((3,), -1), torch.zeros(3, dtype=torch.bool))
    assert (empty.nodes, empty.accuracy, empty.macro_f1, empty.calibration_error) == (0, None, None, None)
    assert empty.reliability == ()
    assert pooled([]) is None
    assert pooled([empty, empty]) is not None


def test_an_empty_set_changes_no_pooled_score() -> None:
    logits, y = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    some = tally(logits, y, torch.tensor([True, True]))
    none = tally(logits, y, torch.tensor([False, False]))
    assert (some + none).accuracy == some.accuracy == 0.5
    assert (none + some).macro_f1 == some.macro_f1


def test_certainty_falls_into_the_last_bin() -> None:
    counts = tally(torch.tensor([[100.0, -100.0]]), torch.tensor([1]), torch.tensor([True]))
    assert counts.bin_nodes.tolist() == [0] * 14 + [1]
    assert counts.calibration_error == 1.0
    assert counts.reliability[-1].accuracy == 0.0


def test_the_calibration_error_never_exceeds_one() -> None:
    """Sums of confidences are rounded to float32, so a reply may hold slightly more than one a node."""
    none = torch.zeros(CALIBRATION_BINS)
    nodes = torch.tensor([1] + [0] * 14)
    counts = Tally(torch.tensor([[0, 1], [0, 0]]), nodes, nodes + none + 1e-3, torch.zeros_like(nodes))
    assert counts.calibration_error == 1.0
    assert counts.reliability[0].confidence == 1.0
