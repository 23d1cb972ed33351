from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_recall_fscore_support,
    roc_auc_score,
)

from fedtag.common.numerics.scores import (
    CALIBRATION_BINS,
    LOCAL,
    Tally,
    count_forms,
    pooled,
    pooled_bins,
    tally,
)
from fedtag.common.settings.sections import EvaluationConfig
from fedtag.common.wording.scoring import METRICS


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


def samples(classes: int, nodes: int = 4000, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that know something of labels, of which each class has about half of the one before."""
    rng = np.random.default_rng(seed)
    share = 0.5 ** np.arange(classes)
    y = torch.from_numpy(rng.choice(classes, nodes, p=share / share.sum()))
    logits = 2 * torch.from_numpy(rng.standard_normal((nodes, classes))).float()
    logits[torch.arange(nodes), y] += 2
    return logits, y


def every(y: torch.Tensor) -> torch.Tensor:
    return torch.ones(len(y), dtype=torch.bool)


@given(predictions())
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true", "ignore:A single label was found")
def test_balanced_accuracy_and_scores_by_class_equal_those_of_scikit_learn(
    data: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
) -> None:
    logits, y, mask = data
    counts = tally(logits, y, mask)
    label, predicted = y[mask].numpy(), logits[mask].argmax(1).numpy()
    assert counts.balanced_accuracy == pytest.approx(balanced_accuracy_score(label, predicted))
    expected = precision_recall_fscore_support(
        label, predicted, labels=list(range(logits.shape[1])), zero_division=np.nan
    )
    for one, (precision, recall, f1, nodes) in zip(counts.classes, zip(*expected, strict=True), strict=True):
        assert one.nodes == nodes
        assert (one.auroc, one.auprc) == (None, None)
        for found, wanted in ((one.precision, precision), (one.recall, recall), (one.f1, f1)):
            assert (np.nan if found is None else found) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("classes", [3, 6])
def test_areas_are_means_over_classes(classes: int) -> None:
    logits, y = samples(classes)
    counts, probabilities = tally(logits, y, every(y), ranked=True), logits.double().softmax(1).numpy()
    assert counts.auroc == pytest.approx(
        roc_auc_score(y, probabilities, multi_class="ovr", average="macro"), abs=0.002
    )
    each = [average_precision_score(y == one, probabilities[:, one]) for one in range(classes)]
    assert counts.auprc == pytest.approx(np.mean(each), abs=0.005)
    for one, scores in enumerate(counts.classes):
        assert scores.auroc == pytest.approx(roc_auc_score(y == one, probabilities[:, one]), abs=0.005)
        assert scores.auprc == pytest.approx(each[one], abs=0.01)


def test_of_two_classes_the_second_one_is_the_positive_one() -> None:
    logits, y = samples(2)
    counts, positive = tally(logits, y, every(y), ranked=True), logits.double().softmax(1)[:, 1].numpy()
    assert counts.auroc == pytest.approx(roc_auc_score(y, positive), abs=0.002)
    assert counts.auprc == pytest.approx(average_precision_score(y, positive), abs=0.005)
    assert counts.classes[0].auprc == pytest.approx(average_precision_score(1 - y, 1 - positive), abs=0.005)
    assert counts.classes[0].auprc != pytest.approx(counts.auprc, abs=0.02)


def test_areas_leave_out_classes_without_nodes_and_are_none_of_one_class() -> None:
    logits, y = samples(3)
    kept = y != 2
    counts, probabilities = tally(logits, y, kept, ranked=True), logits[kept].double().softmax(1).numpy()
    each = [roc_auc_score(y[kept] == one, probabilities[:, one]) for one in range(2)]
    assert counts.auroc == pytest.approx(np.mean(each), abs=0.005)
    assert (counts.classes[2].nodes, counts.classes[2].auroc, counts.classes[2].recall) == (0, None, None)
    alone = tally(logits, y, y == 1, ranked=True)
    assert (alone.auroc, alone.auprc) == (None, None)
    assert alone.balanced_accuracy == alone.accuracy
    empty = tally(logits, y, y < 0, ranked=True)
    assert [empty.value(metric) for metric in METRICS] == [None] * len(METRICS)


def test_pooled_ranks_are_those_of_the_union() -> None:
    logits, y = samples(4)
    share = torch.arange(len(y)) % 3
    split = pooled(tally(logits, y, share == part, ranked=True) for part in range(3))
    whole = tally(logits, y, every(y), ranked=True)
    assert split is not None
    assert split.ranks is not None
    assert split.ranks.dtype == torch.int64
    assert torch.equal(split.ranks, whole.ranks)
    assert [split.value(metric) for metric in METRICS] == [whole.value(metric) for metric in METRICS]
    assert split.classes == whole.classes
    assert (whole + tally(logits, y, every(y))).ranks is None


def test_sums_of_ranks_do_not_wrap_around() -> None:
    logits, y = samples(2, nodes=50)
    whole = tally(logits, y, every(y), ranked=True)
    assert whole.ranks is not None
    many = pooled([Tally(**{**vars(whole), "ranks": torch.full_like(whole.ranks, 2**31 - 1)})] * 3)
    assert many is not None
    assert many.ranks is not None
    assert int(many.ranks.min()) == 3 * (2**31 - 1)


@pytest.mark.parametrize(("classes", "most"), [(2, 2500), (7, 8000), (200, 530_000)])
def test_what_travels_grows_with_classes_and_not_with_nodes(classes: int, most: int) -> None:
    logits, y = samples(classes, nodes=1000)
    counts = tally(logits, y, every(y), ranked=True)
    fields = {name: (tuple(value.shape), value.dtype) for name, value in vars(counts).items()}
    assert fields == count_forms("graph", classes)
    assert sum(value.numel() * value.element_size() for value in vars(counts).values()) < most
    twice = tally(logits.repeat(2, 1), y.repeat(2), every(y).repeat(2), ranked=True)
    assert all(value.shape == getattr(counts, name).shape for name, value in vars(twice).items())
    unranked = {name for name, value in vars(tally(logits, y, every(y))).items() if value is not None}
    assert unranked == set(count_forms(LOCAL, classes))


def test_every_metric_of_the_settings_has_a_name_and_a_value() -> None:
    allowed = EvaluationConfig.model_json_schema()["properties"]["metric"]["enum"]
    assert list(METRICS) == allowed
    logits, y = samples(3)
    counts = tally(logits, y, every(y), ranked=True)
    assert all(0 < (counts.value(metric) or 0) < 1 for metric in METRICS)
