"""Sparse self-expression: each row as a sparse combination of others.

Chen et al., Neighbor-gated Condensation, Eq. 13; Chen et al., Client-Client Collaboration, Eq. 15.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

_BLOCK_ELEMENTS = 1 << 24
_ITERATIONS_UNREAD = 8
# Wider supports take one bound for all rows, because an eigenvalue problem for each row costs more.
_WIDEST_OWN_STEP = 64


@dataclass(frozen=True, eq=False)
class SelfExpression:
    """The coefficients on the support, 0 where it is masked.

    `objective` is that of the printed problem, summed over the rows; `iterations` the most that a row
    took.
    """

    coefficients: Float[Tensor, "rows width"]
    iterations: int
    objective: float


def full_support(num_rows: int, device: torch.device | str = "cpu") -> Int[Tensor, "rows others"]:
    """All other rows, for each row."""
    column = torch.arange(max(num_rows - 1, 0), device=device)
    own = torch.arange(num_rows, device=device).unsqueeze(1)
    return column + (column >= own).long()


@torch.no_grad()
def self_expression(
    x: Float[Tensor, "rows dim"],
    support: Int[Tensor, "rows width"],
    mask: Bool[Tensor, "rows width"],
    prior: Float[Tensor, "rows width"],
    *,
    alpha: float,
    beta: float,
    max_iterations: int = 50,
    tolerance: float = 1e-4,
) -> SelfExpression:
    """Solves min_Z α‖X̂ - Z X̂‖² + β‖Z‖₁ + Σ (1 - S_ij)|Z_ij|, row i supported on C(i), by FISTA.

    X̂ has the rows of x in unit length. The rows are independent. Divided by 2α, each is a lasso with
    the thresholds λ1 + λ3 (1 - S_ij), λ1 = β / 2α and λ3 = 1 / 2α, and the step 1 / λmax(X̂_C X̂_Cᵀ);
    a row stops when its objective changes by less than `tolerance`, relatively. On a support wider than
    64, λmax(X̂ X̂ᵀ) takes the place of the row's own, which it bounds. The work is on Gram matrices of
    the supports; gathers hold a block of rows at a time.

    Args:
        x: features; only their direction matters.
        support: C(i), ids of rows, distinct within a row and without i itself.
        mask: which entries of the support count.
        prior: S on the support, in [0, 1].
        alpha: weight of the reconstruction, > 0.
        beta: weight of sparsity, >= 0.
        max_iterations: >= 1.
        tolerance: relative change of the objective that ends a row, >= 0.
    """
    unit = normalize(x.detach(), dim=1)
    num_rows, width = support.shape
    penalty = (beta + 1.0 - prior) / (2.0 * alpha)
    bound = _shared_bound(unit) if width > _WIDEST_OWN_STEP else None
    block = max(1, _BLOCK_ELEMENTS // max(width * max(unit.shape[1], width), 1))
    coefficients = torch.zeros_like(penalty, dtype=unit.dtype)
    taken = torch.zeros(num_rows, dtype=torch.long, device=unit.device)
    value = unit.new_zeros(num_rows)
    for begin in range(0, num_rows, block):
        part = slice(begin, begin + block)
        others = unit[support[part]] * mask[part].unsqueeze(2)
        gram = others @ others.transpose(1, 2)
        target = (others @ unit[part].unsqueeze(2)).squeeze(2)
        square = unit[part].square().sum(dim=1)
        own = torch.linalg.eigvalsh(gram)[:, -1] if bound is None and width else bound
        steepness = square.new_ones(()) if own is None else own.clamp_min(1e-12)
        z, taken[part], value[part] = _fista(
            gram, target, square, penalty[part], steepness.expand(square.shape), max_iterations, tolerance
        )
        coefficients[part] = torch.where(mask[part], z, 0.0)
    return SelfExpression(
        coefficients, max(taken.tolist(), default=0), 2.0 * alpha * float(value.double().sum())
    )


def _shared_bound(unit: Float[Tensor, "rows dim"]) -> Float[Tensor, ""]:
    """λmax(X̂ X̂ᵀ), not below that of any principal part."""
    gram = unit @ unit.T if unit.shape[0] <= unit.shape[1] else unit.T @ unit
    return torch.linalg.eigvalsh(gram)[-1]


def _fista(
    gram: Float[Tensor, "rows width width"],
    target: Float[Tensor, "rows width"],
    square: Float[Tensor, " rows"],
    penalty: Float[Tensor, "rows width"],
    steepness: Float[Tensor, " rows"],
    max_iterations: int,
    tolerance: float,
) -> tuple[Float[Tensor, "rows width"], Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Beck and Teboulle (2009) on ½ zᵀGz - bᵀz + ½‖x‖² + Σ p|z|, for all rows at once.

    A row that has stopped keeps its z, so that the result does not depend on the other rows.
    """
    step = 1.0 / steepness.unsqueeze(1)
    threshold = step * penalty
    lowest = -threshold
    half_square, minus_target = 0.5 * square, -target
    z = torch.zeros_like(target)
    gram_z = torch.zeros_like(target)
    y, gram_y = z, gram_z
    value = half_square
    running = torch.ones_like(square, dtype=torch.bool)
    momentum, taken = 1.0, torch.zeros(square.shape, dtype=torch.long, device=square.device)
    for iteration in range(1, max_iterations + 1):
        moved = torch.addcmul(y, step, gram_y - target, value=-1)
        following = moved - moved.clamp(lowest, threshold)
        following = torch.where(running.unsqueeze(1), following, z)
        gram_following = torch.bmm(gram, following.unsqueeze(2)).squeeze(2)
        smooth = (following * torch.add(minus_target, gram_following, alpha=0.5)).sum(dim=1)
        new_value = (smooth + half_square).clamp_min(0.0) + (penalty * following.abs()).sum(dim=1)
        next_momentum = 0.5 * (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5)
        push = (momentum - 1.0) / next_momentum
        y = torch.add(following, following - z, alpha=push)
        gram_y = torch.add(gram_following, gram_following - gram_z, alpha=push)
        taken += running
        running = running & ((value - new_value).abs() > tolerance * value)
        z, gram_z, value, momentum = following, gram_following, new_value, next_momentum
        # Reading whether any row goes on makes the host wait for the device.
        if iteration % _ITERATIONS_UNREAD == 0 and not bool(running.any()):
            break
    return z, taken, value
