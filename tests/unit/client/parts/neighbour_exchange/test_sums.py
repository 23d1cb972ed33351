from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.parts.neighbour_exchange.sums import Propagation
from fedtag.common.graph import Graph

NODES, DIM = 24, 5


def dense(pairs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2 of the whole graph, by NumPy."""
    matrix = np.eye(NODES)
    for (one, other), weight in zip(pairs, weights, strict=True):
        matrix[one, other] += weight
        matrix[other, one] += weight
    scale = matrix.sum(1) ** -0.5
    return scale[:, None] * matrix * scale


class Divided:
    """A random weighted graph, and the part of it that each of some institutions holds."""

    def __init__(self, seed: int, owners: int) -> None:
        rng = np.random.default_rng(seed)
        pairs = np.unique(np.sort(rng.integers(0, NODES, (60, 2)), axis=1), axis=0)
        self.pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        self.weights = rng.uniform(0.2, 2.0, len(self.pairs)).astype(np.float32)
        self.owner = rng.integers(0, owners, NODES)
        self.owner[:owners] = np.arange(owners)
        self.x = rng.standard_normal((NODES, DIM)).astype(np.float32)
        self.expected = dense(self.pairs, self.weights) @ self.x

    def held(self, name: int) -> tuple[np.ndarray, Propagation, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, Â, and own end, foreign end and weight of each cross edge."""
        rows = np.flatnonzero(self.owner == name)
        position = np.full(NODES, -1)
        position[rows] = np.arange(len(rows))
        both = np.concatenate([self.pairs, self.pairs[:, ::-1]])
        weights = np.tile(self.weights, 2)
        mine = self.owner[both[:, 0]] == name
        inside = mine & (self.owner[both[:, 1]] == name)
        crossing = mine & ~inside
        none = torch.zeros(len(rows), dtype=torch.bool)
        graph = Graph(
            torch.from_numpy(self.x[rows]),
            torch.from_numpy(position[both[inside]].T.copy()),
            torch.from_numpy(weights[inside]),
            none.long(),
            none,
            none,
            none,
            2,
        )
        source = position[both[crossing, 0]]
        weight = weights[crossing]
        made = Propagation.of(graph, torch.from_numpy(source), torch.from_numpy(weight))
        return rows, made, source, both[crossing, 1], weight


@pytest.mark.parametrize("owners", [1, 2, 5])
@given(seed=st.integers(0, 10**6))
def test_parts_of_all_institutions_are_rows_of_the_whole_product(owners: int, seed: int) -> None:
    case = Divided(seed, owners)
    sums = torch.zeros(NODES, DIM, dtype=torch.float64)
    for name in range(owners):
        rows, made, source, foreign, weight = case.held(name)
        sums += made.given(
            torch.from_numpy(case.x[rows]),
            torch.from_numpy(source),
            torch.from_numpy(weight),
            torch.from_numpy(foreign),
            NODES,
        )
    for name in range(owners):
        rows, made, source, _, _ = case.held(name)
        boundary = np.unique(source)
        local = made.local(torch.from_numpy(case.x[rows]))
        found = made.completed(local, torch.from_numpy(boundary), sums[rows[boundary]])
        np.testing.assert_allclose(found.numpy(), case.expected[rows], rtol=1e-4, atol=1e-5)


def test_without_cross_edges_it_is_the_usual_propagation() -> None:
    case = Divided(3, 1)
    rows, made, source, _, _ = case.held(0)
    assert not len(source)
    np.testing.assert_allclose(
        made.local(torch.from_numpy(case.x)).numpy(), case.expected, rtol=1e-4, atol=1e-5
    )
    nobody = torch.zeros(0, dtype=torch.int64)
    local = made.local(torch.from_numpy(case.x))
    kept = made.completed(local, nobody, torch.zeros(0, DIM, dtype=torch.float64))
    assert torch.equal(kept, local)
    assert len(rows) == NODES
