from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.synthetic.labels import class_counts, condensed_labels, condensed_size


@pytest.mark.parametrize("seed", range(200))
def test_labels_of_random_partitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clients, classes = int(rng.integers(10, 51)), int(rng.integers(2, 16))
    labels = torch.as_tensor(rng.choice(classes, 2708, p=rng.dirichlet(np.ones(classes))))
    owner = torch.as_tensor(rng.integers(0, clients, 2708))
    train = torch.as_tensor(rng.random(2708) < rng.uniform(0.02, 0.6))
    ratio = float(rng.choice([0.02, 0.04, 0.08]))
    for client in range(clients):
        nodes = owner == client
        labelled = torch.bincount(labels[nodes & train], minlength=classes)
        size = condensed_size(int(nodes.sum()), ratio)
        counts = class_counts(labelled, size)
        if not labelled.any():
            assert counts.tolist() == [0] * classes
            continue
        assert int(counts.sum()) == max(
            math.ceil(round(ratio * int(nodes.sum()), 9)), int((labelled > 0).sum())
        )
        assert bool((counts >= 0).all())
        assert torch.equal(counts > 0, labelled > 0)
        assert torch.equal(torch.bincount(condensed_labels(labelled, size), minlength=classes), counts)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.integers(0, 100))
def test_counts_are_within_one_of_the_shares_where_no_class_is_rescued(sizes: list[int], size: int) -> None:
    counts = class_counts(torch.tensor(sizes), size).tolist()
    total = sum(sizes)
    shares = [size * one / max(total, 1) for one in sizes]
    if all(share >= 1 for share, one in zip(shares, sizes, strict=True) if one):
        assert all(abs(count - share) < 1 for count, share in zip(counts, shares, strict=True))


def test_a_class_may_get_more_condensed_nodes_than_it_has_labels() -> None:
    assert class_counts(torch.tensor([1, 3]), 20).tolist() == [5, 15]


@pytest.mark.parametrize(
    ("nodes", "ratio", "size"), [(100, 0.07, 7), (101, 0.07, 8), (0, 0.5, 0), (7, 1.0, 7)]
)
def test_sizes_have_no_rounding_errors(nodes: int, ratio: float, size: int) -> None:
    assert condensed_size(nodes, ratio) == size
