from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.parts.neighbour_generator.model import (
    NeighbourGenerator,
    initial_neighbour_generator,
    owners,
)


def test_the_encoder_is_two_layers_of_own_and_mean_neighbouring_features() -> None:
    model = NeighbourGenerator(4, 3).double()
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    links = torch.zeros(5, 5, dtype=torch.float64)
    for a, b in [(0, 1), (1, 2), (0, 3)]:
        links[a, b] = links[b, a] = 1
    mean = links / links.sum(1, keepdim=True).clamp_min(1)
    h = x
    for place, layer in enumerate(model.encoder):
        conv = layer.conv
        h = mean @ h @ conv.lin_l.weight.T + conv.lin_l.bias + h @ conv.lin_r.weight.T
        h = h.relu() if place == 0 else h
    z = model.encoded(x, normalised_adjacency(links.nonzero().T, 5))
    torch.testing.assert_close(z, h)
    expected = functional.softplus(h @ model.count.weight.T + model.count.bias)[:, 0]
    torch.testing.assert_close(model.counts(z), expected)


def test_every_generated_neighbour_has_noise_of_its_own() -> None:
    model, z = NeighbourGenerator(4, 3), torch.arange(6.0).view(2, 3)
    owner = torch.tensor([0, 0, 1])
    found = model.features(z, owner, torch.Generator().manual_seed(1))
    noise = torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    expected = (z[owner] + noise) @ model.feature.weight.T + model.feature.bias
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found[0], found[1])


@pytest.mark.parametrize(
    ("most", "expected"), [(5, [1, 2, 2, 3, 3, 3, 3, 3]), (2, [1, 2, 2, 3, 3]), (1, [1, 2, 3])]
)
def test_counts_are_rounded_and_bounded(most: int, expected: list[int]) -> None:
    assert owners(torch.tensor([0.49, 0.51, 1.9, 80.0]), most).tolist() == expected


def test_the_seed_alone_decides_the_initial_generator() -> None:
    made = [fingerprint(parameters_of(initial_neighbour_generator(4, 3, seed))) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
