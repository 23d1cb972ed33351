from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

from fedtag.client.methods.fedc4.collaboration.rebuilding import nearest, rebuilt


def features(rows: int = 12, dim: int = 6) -> torch.Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(3))


def test_the_nearest_rows_are_those_of_a_full_table() -> None:
    unit = torch.nn.functional.normalize(features(23), dim=1)
    table = unit @ unit.T
    table.fill_diagonal_(-9)
    for block in (5, 100):
        support, cosine = nearest(unit, 4, block)
        value, expected = table.topk(4, dim=1)
        assert torch.equal(support, expected)
        torch.testing.assert_close(cosine, value)
    assert nearest(unit[:1], 4)[0].shape == (1, 0)
    assert nearest(unit[:3], 9)[0].shape == (3, 2)


def test_links_are_those_of_the_lasso() -> None:
    """With β far above the prior's weight the rows are plain non-signed lassos, which scikit-learn solves."""
    x = features()
    unit = torch.nn.functional.normalize(x, dim=1).double().numpy()
    alpha, beta = 1000.0, 200.0
    expected = np.zeros((12, 12))
    for row in range(12):
        others = [place for place in range(12) if place != row]
        # scikit-learn: 1/(2 dim) ‖y - Xw‖² + a‖w‖₁; ours divided by 2 α dim.
        lasso = Lasso(alpha=beta / (2 * alpha * 6), fit_intercept=False, tol=1e-10, max_iter=100_000)
        expected[row, others] = lasso.fit(unit[others].T, unit[row]).coef_
    linked = {(i, j) for i, j in zip(*np.nonzero((np.abs(expected) > 0.05).astype(int)), strict=True)}
    linked |= {(j, i) for i, j in linked}
    edges = rebuilt(x, alpha=alpha, beta=beta, neighbours=11).edge_index_without_loops
    found = {(int(i), int(j)) for i, j in edges.T}
    assert linked <= found
    strong = {
        (i, j) for i in range(12) for j in range(12) if abs(expected[i, j]) + abs(expected[j, i]) > 1e-6
    }
    assert len(found - strong) <= 0.1 * len(found)


def test_the_graph_is_symmetric_sparse_and_permutes_with_its_rows() -> None:
    x = features(40, 16)
    adjacency = rebuilt(x, alpha=1000.0, beta=100.0, neighbours=3)
    dense = torch.zeros(40, 40).index_put_(
        (adjacency.edge_index[1], adjacency.edge_index[0]), adjacency.weight
    )
    torch.testing.assert_close(dense, dense.T)
    assert 0 < adjacency.edge_index_without_loops.shape[1] <= 2 * 3 * 40
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    other = rebuilt(x[order], alpha=1000.0, beta=100.0, neighbours=3)
    shuffled = torch.zeros(40, 40).index_put_((other.edge_index[1], other.edge_index[0]), other.weight)
    torch.testing.assert_close(shuffled, dense[order][:, order], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows_and_large_penalties_leave_loops_alone(rows: int) -> None:
    adjacency = rebuilt(features(rows), alpha=1.0, beta=10.0)
    assert adjacency.edge_index.tolist() == [list(range(rows))] * 2


@pytest.mark.parametrize(("cosine", "linked"), [(0.45, True), (0.36, True), (0.30, False)])
def test_likeness_lowers_the_price_of_a_link(cosine: float, linked: bool) -> None:
    """Two unit rows, α = 1, β = 0: min 1 - 2zc + z² + (1 - c)|z| has z = max(0, (3c - 1) / 2), which is 0 up to 1/3.

    Without the prior it would be 0 up to 1/2.
    """
    x = torch.tensor([[1.0, 0.0], [cosine, (1 - cosine**2) ** 0.5]])
    assert bool(rebuilt(x, alpha=1.0, beta=0.0).edge_index_without_loops.numel()) is linked
