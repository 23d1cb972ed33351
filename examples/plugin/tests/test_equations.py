"""What is computed, against the equations by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedtag.extension import normalised_adjacency
from fedtag_example.class_balance.names import unit
from fedtag_example.class_balance.server import class_weights
from fedtag_example.twice_linear import TwiceLinear


@pytest.mark.parametrize("smoothing", [0.0, 0.05, 10.0])
def test_weights_are_inverse_to_shares_and_one_on_average(smoothing: float) -> None:
    shares = [0.7, 0.3, 0.0]
    weights = class_weights(torch.tensor(shares), smoothing).tolist()
    inverse = [1 / (share + smoothing) if share else 0.0 for share in shares]
    total = sum(share * one for share, one in zip(shares, inverse, strict=True))
    assert weights == pytest.approx([one / total for one in inverse])


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_the_mean_of_counts_is_in_proportion_to_the_sum_of_all(weights: str) -> None:
    counts = np.array([[3.0, 1.0], [0.0, 8.0]])
    nodes = counts.sum(1)
    shares = np.full(2, 0.5) if weights == "uniform" else nodes / nodes.sum()
    scaled = counts * [[unit(weights, int(count))] for count in nodes]
    mean = shares @ scaled
    assert mean / mean.sum() == pytest.approx(counts.sum(0) / counts.sum())


def test_the_backbone_is_its_formula() -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 3)).astype(np.float32)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    adjacency = normalised_adjacency(edges, 4)
    model = TwiceLinear(3, 5, 2, hops=3, restart=0.25, rate=0.0, skip=True)
    inner, outer, skip = (
        {name: value.detach().numpy() for name, value in one.named_parameters()}
        for one in (model.inner, model.outer, model.skip)
    )
    a = adjacency.propagate(torch.eye(4)).numpy()
    propagated = x
    for _ in range(3):
        propagated = 0.75 * a @ propagated + 0.25 * x
    expected = propagated @ inner["weight"].T @ outer["weight"].T + outer["bias"]
    expected = expected + x @ skip["weight"].T + skip["bias"]
    assert model(torch.from_numpy(x), adjacency).detach().numpy() == pytest.approx(expected, abs=1e-5)
