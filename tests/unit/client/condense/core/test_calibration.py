from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from fedtag.client.condense.core.calibration import temperature


def likeliest(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """log T on a dense grid, by the log-likelihood in NumPy: no search that could stop elsewhere."""
    scores, rows = logits.double().numpy(), np.arange(len(labels))
    grid = np.linspace(-3, 3, 6001)
    costs = []
    for log_temperature in grid:
        scaled = scores / np.exp(log_temperature)
        costs.append(np.mean(np.logaddexp.reduce(scaled, axis=1) - scaled[rows, labels.numpy()]))
    return float(grid[int(np.argmin(costs))])


@pytest.mark.parametrize("scale", [0.2, 1.0, 8.0])
def test_it_minimises_the_cross_entropy(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    clean = torch.randn(400, 5, generator=generator)
    labels = torch.multinomial(clean.softmax(1), 1, generator=generator).squeeze(1)
    logits = scale * clean
    found = temperature(logits, labels)
    assert math.log(found) == pytest.approx(likeliest(logits, labels), abs=0.001)
    # Labels were drawn from the clean logits, so that the scale is what must be undone.
    assert found == pytest.approx(scale, rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_few_nodes_and_hostile_logits_have_one_minimum_too(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(7, 3, generator=generator).exp()
    labels = torch.randint(3, (7,), generator=generator)
    assert math.log(temperature(logits, labels)) == pytest.approx(likeliest(logits, labels), abs=0.001)


def test_without_labels_nothing_is_scaled() -> None:
    assert temperature(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)) == 1.0


def test_perfect_predictions_stay_in_the_range() -> None:
    labels = torch.arange(3)
    assert math.exp(-3) <= temperature(10 * torch.eye(3), labels) <= 1.0
