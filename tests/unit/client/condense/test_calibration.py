from __future__ import annotations

import math

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch.nn import functional

from client.condense.calibration import temperature


@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_it_minimises_the_cross_entropy(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    clean = torch.randn(400, 5, generator=generator)
    labels = torch.multinomial(clean.softmax(1), 1, generator=generator).squeeze(1)
    logits = scale * clean

    def cost(log_temperature: float) -> float:
        return float(functional.cross_entropy(logits.double() / math.exp(log_temperature), labels))

    oracle = minimize_scalar(cost, bounds=(-3, 3), method="bounded", options={"xatol": 1e-8})
    found = temperature(logits, labels)
    assert math.log(found) == pytest.approx(oracle.x, abs=1e-4)
    # Labels were drawn from the clean logits, so that the scale is what must be undone.
    assert found == pytest.approx(scale, rel=0.2)


def test_without_labels_nothing_is_scaled() -> None:
    assert temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) == 1.0


def test_perfect_predictions_stay_in_the_range() -> None:
    labels = torch.arange(3)
    assert math.exp(-3) <= temperature(10 * torch.eye(3), labels) <= 1.0
