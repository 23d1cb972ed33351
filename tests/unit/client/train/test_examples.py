from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from torch.nn import functional

from fedtag.client.train.examples import Examples, class_balanced
from fedtag.common.graph import Adjacency

LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=60)


def balanced_by_class(labels: np.ndarray) -> dict[int, float]:
    """What scikit-learn gives to each class that occurs."""
    present = np.unique(labels)
    weights = compute_class_weight("balanced", classes=present, y=labels)
    return dict(zip(present.tolist(), weights.tolist(), strict=True))


@given(LABELS)
def test_balanced_weights_are_those_of_scikit_learn(labels: list[int]) -> None:
    """A class that does not occur, between others or after them, changes no weight."""
    y = np.array(labels)
    found = class_balanced(torch.from_numpy(y), torch.ones(len(y)))
    assert found.tolist() == pytest.approx([balanced_by_class(y)[label] for label in labels], rel=1e-6)


@given(LABELS, st.integers(0, 99))
def test_weights_that_were_there_are_kept_within_a_class(labels: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = torch.from_numpy(rng.uniform(0.1, 2, len(labels))).float()
    y = torch.tensor(labels)
    after = class_balanced(y, before)
    sums = torch.zeros(7).index_add(0, y, after)
    present = torch.bincount(y, minlength=7) > 0
    assert float(after.sum()) == pytest.approx(float(before.sum()), rel=1e-5)
    assert sums[present].tolist() == pytest.approx(
        [float(before.sum()) / int(present.sum())] * int(present.sum())
    )
    for label in set(labels):
        ratio = (after / before)[y == label]
        assert ratio.tolist() == pytest.approx([float(ratio[0])] * len(ratio), rel=1e-5)


def test_labels_that_are_not_learned_have_no_part() -> None:
    y = torch.tensor([0, 0, 0, 1, 2, -1])
    found = class_balanced(y, torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0]))
    assert found.tolist() == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2.0, 0.0, 0.0])
    assert class_balanced(torch.tensor([-1, -1]), torch.zeros(2)).tolist() == [0.0, 0.0]
    assert class_balanced(torch.zeros(0, dtype=torch.long), torch.zeros(0)).tolist() == []


def graph_examples(y: torch.Tensor, mask: torch.Tensor) -> Examples:
    nothing = Adjacency(torch.zeros(2, 0, dtype=torch.long), torch.zeros(0), len(y))
    return Examples(torch.zeros(len(y), 2), nothing, y, mask)


def test_the_loss_of_balanced_examples_is_pytorchs_with_the_weights_of_classes() -> None:
    y = torch.tensor([0, 0, 0, 0, 1, 2, 2, 1])
    mask = torch.tensor([True] * 6 + [False] * 2)
    logits = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
    by_class = balanced_by_class(y[mask].numpy())
    weights = torch.tensor([by_class.get(label, 0.0) for label in range(4)])
    found = graph_examples(y, mask).balanced
    assert float(found.loss(logits)) == pytest.approx(
        float(functional.cross_entropy(logits[mask], y[mask], weight=weights)), rel=1e-6
    )
    assert found.weight is not None
    assert found.weight[mask].tolist() == pytest.approx(compute_sample_weight("balanced", y[mask].numpy()))
    plain = graph_examples(y, mask)
    assert plain.weight is None
    assert float(plain.loss(logits)) == pytest.approx(float(functional.cross_entropy(logits[mask], y[mask])))
    assert float(plain.loss(logits)) != pytest.approx(float(found.loss(logits)), abs=1e-3)
