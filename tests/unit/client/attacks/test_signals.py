from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as scipy_entropy

from fedtag.client.attacks.signals import confidence, entropy, modified_entropy, sorted_posteriors


def written_out(p: list[float], y: int) -> float:
    """Equation 8 of Song and Mittal (2021), term by term."""
    total = -(1 - p[y]) * math.log(p[y])
    for i, value in enumerate(p):
        if i != y:
            total -= value * math.log(1 - value)
    return total


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=6), st.data())
def test_signals_follow_their_formulas(raw: list[float], data: st.DataObject) -> None:
    p = np.array(raw) / sum(raw)
    y = data.draw(st.integers(0, len(raw) - 1))
    one, label = p[None], np.array([y])
    assert confidence(one, label)[0] == p[y]
    assert entropy(one)[0] == pytest.approx(-scipy_entropy(p))
    assert modified_entropy(one, label)[0] == pytest.approx(-written_out(p.tolist(), y))


def test_certainty_in_a_wrong_label_is_unlike_certainty_in_the_right_one() -> None:
    certain = np.array([[1.0, 0.0, 0.0]])
    assert modified_entropy(certain, np.array([0]))[0] == pytest.approx(0)
    assert modified_entropy(certain, np.array([1]))[0] < -60
    assert entropy(certain)[0] == pytest.approx(0)


def test_the_order_of_members_on_posteriors_made_by_hand() -> None:
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9], [0.5, 0.5]])
    y = np.zeros(4, int)
    assert np.argsort(-confidence(p, y)).tolist() == [0, 1, 3, 2]
    assert np.argsort(-modified_entropy(p, y)).tolist() == [0, 1, 3, 2]
    assert np.argsort(-entropy(p), kind="stable").tolist() == [0, 2, 1, 3]


def test_sorted_posteriors_hide_the_class_and_keep_the_largest() -> None:
    p = np.array([[0.7, 0.1, 0.2], [0.2, 0.7, 0.1]])
    rows = sorted_posteriors(p)
    assert np.allclose(rows, np.log([[0.7, 0.2, 0.1]] * 2))
    wide = np.full((2, 40), 1 / 40)
    assert sorted_posteriors(wide).shape == (2, 10)
    assert np.isfinite(sorted_posteriors(np.eye(3))).all()
