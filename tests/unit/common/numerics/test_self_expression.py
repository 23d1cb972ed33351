from __future__ import annotations

import math

import pytest
import torch
from sklearn.linear_model import Lasso

from fedtag.common.numerics.self_expression import full_support, self_expression


def problem(rows: int, dim: int, width: int, seed: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, dim, generator=generator, dtype=torch.float64) + 0.7
    order = torch.rand(rows, rows, generator=generator).fill_diagonal_(2.0)
    support = order.argsort(dim=1)[:, :width]
    mask = torch.rand(rows, width, generator=generator) < 0.8
    prior = torch.rand(rows, width, generator=generator, dtype=torch.float64)
    return x, support, mask, prior


def printed_objective(
    x: torch.Tensor,
    z: torch.Tensor,
    support: torch.Tensor,
    mask: torch.Tensor,
    prior: torch.Tensor,
    alpha: float,
    beta: float,
) -> float:
    unit = x / x.norm(dim=1, keepdim=True)
    dense, weight = torch.zeros(len(x), len(x), dtype=x.dtype), torch.zeros(len(x), len(x), dtype=x.dtype)
    row, column = mask.nonzero(as_tuple=True)
    dense[row, support[row, column]] = z[row, column]
    weight[row, support[row, column]] = 1 - prior[row, column]
    smooth = alpha * (unit - dense @ unit).square().sum()
    return float(smooth + beta * dense.abs().sum() + (weight * dense.abs()).sum())


@pytest.mark.parametrize(("alpha", "beta"), [(4.0, 0.1), (2.0, 1.0), (20.0, 0.0)])
def test_agrees_with_coordinate_descent(alpha: float, beta: float) -> None:
    x, support, mask, prior = problem(14, 8, 6, 1)
    result = self_expression(
        x, support, mask, prior, alpha=alpha, beta=beta, max_iterations=5000, tolerance=0.0
    )
    unit = x / x.norm(dim=1, keepdim=True)
    for i in range(len(x)):
        kept = mask[i].nonzero().flatten()
        if not len(kept):
            continue
        # scikit-learn: min 1/(2 d) |y - A u|² + a |u|₁ with z = u / w; weights go into the columns.
        weight = (beta + 1 - prior[i, kept]) / (2 * alpha)
        columns = (unit[support[i, kept]] / weight.unsqueeze(1)).T.numpy()
        lasso = Lasso(alpha=1 / len(columns), fit_intercept=False, tol=1e-12, max_iter=100_000)
        expected = torch.as_tensor(lasso.fit(columns, unit[i].numpy()).coef_) / weight
        torch.testing.assert_close(result.coefficients[i, kept], expected, atol=1e-6, rtol=0)
    assert bool((result.coefficients[~mask] == 0).all())
    expected_objective = printed_objective(x, result.coefficients, support, mask, prior, alpha, beta)
    assert result.objective == pytest.approx(expected_objective, rel=1e-9)


@pytest.mark.parametrize("rows", [30, 90])
def test_optimality_conditions_on_a_full_support(rows: int) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(rows, 40, generator=generator, dtype=torch.float64) + 0.5
    support = full_support(rows)
    unit = x / x.norm(dim=1, keepdim=True)
    prior = (unit @ unit.T).clamp_min(0).gather(1, support)
    mask = torch.ones_like(support, dtype=torch.bool)
    alpha, beta = 8.0, 0.5
    z = self_expression(x, support, mask, prior, alpha=alpha, beta=beta, max_iterations=5000, tolerance=0.0)
    dense = torch.zeros(rows, rows, dtype=torch.float64).scatter(1, support, z.coefficients)
    assert dense.diagonal().tolist() == [0.0] * rows
    gradient = (2 * alpha * (dense @ unit - unit) @ unit.T).gather(1, support)
    weight = beta + 1 - prior
    active = z.coefficients != 0
    assert 0 < int(active.sum()) < active.numel()
    stationary = gradient + weight * z.coefficients.sign()
    torch.testing.assert_close(stationary[active], torch.zeros_like(stationary[active]), atol=1e-5, rtol=0)
    assert bool((gradient[~active].abs() <= weight[~active] + 1e-5).all())


def test_default_iterations_come_close_to_the_optimum() -> None:
    x, support, mask, prior = problem(60, 24, 16, 5)
    exact = self_expression(x, support, mask, prior, alpha=6.0, beta=0.3, max_iterations=5000, tolerance=0.0)
    quick = self_expression(x.float(), support, mask, prior.float(), alpha=6.0, beta=0.3)
    assert quick.iterations <= 50
    assert exact.objective - 1e-3 <= quick.objective <= 1.005 * exact.objective
    scaled = self_expression(x * 37.0, support, mask, prior, alpha=6.0, beta=0.3)
    assert scaled.objective == pytest.approx(quick.objective, rel=1e-5)


def test_rows_do_not_depend_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    x, support, mask, prior = problem(20, 12, 5, 8)
    whole = self_expression(x, support, mask, prior, alpha=5.0, beta=0.2)
    monkeypatch.setattr("fedtag.common.numerics.self_expression._BLOCK_ELEMENTS", 3 * 5 * 12)
    blocks = self_expression(x, support, mask, prior, alpha=5.0, beta=0.2)
    torch.testing.assert_close(blocks.coefficients, whole.coefficients, atol=1e-12, rtol=0)
    assert blocks.iterations == whole.iterations
    assert blocks.objective == pytest.approx(whole.objective)


def test_threshold_above_every_cosine_gives_nothing() -> None:
    x, support, mask, prior = problem(12, 6, 5, 3)
    result = self_expression(x, support, mask, prior, alpha=1.0, beta=2.0)
    assert not bool(result.coefficients.any())
    assert result.objective == pytest.approx(12.0)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_identical_zero_and_single_rows(rows: int) -> None:
    support = full_support(rows)
    mask = torch.ones_like(support, dtype=torch.bool)
    prior = torch.ones(rows, rows - 1)
    same = self_expression(torch.ones(rows, 3), support, mask, prior, alpha=4.0, beta=1.0)
    assert same.coefficients.shape == (rows, rows - 1)
    if rows > 1:  # one unknown, s = Σz: min 4 (1 - s)² + s
        torch.testing.assert_close(same.coefficients.sum(1), torch.full((rows,), 0.875), atol=1e-3, rtol=0)
    nothing = self_expression(torch.zeros(rows, 3), support, mask, prior, alpha=4.0, beta=1.0)
    assert not bool(nothing.coefficients.any())
    assert math.isfinite(nothing.objective)


def test_full_support_leaves_out_the_row_itself() -> None:
    assert full_support(3).tolist() == [[1, 2], [0, 2], [0, 1]]
