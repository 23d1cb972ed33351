"""Sparse attention over ragged candidate sets under a hard budget.

Chen et al., Neighbor-gated Condensation, Eq. 6 and 8.
"""

from __future__ import annotations

from typing import Any

import torch
from entmax import entmax15
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from fedtag.common.numerics.ragged import Ragged, segment_rank, segment_sum

# Entries more than 2 below the largest of their row get exactly 0 under 1.5-entmax, so that padding at
# this distance changes nothing, and is finite.
_PADDING_DISTANCE = 4.0


def entmax15_ragged(scores: Float[Tensor, " entries"], candidates: Ragged) -> Float[Tensor, " entries"]:
    """The exact 1.5-entmax (Peters et al., 2019) of the scores within each row.

    Rows are padded in blocks, see `Ragged.blocks`. Differentiable once.

    Args:
        scores: finite.
        candidates: the rows; they may be empty.

    Returns:
        Non-negative weights that sum to 1 in each non-empty row.
    """
    weights: Tensor = _RaggedEntmax.apply(scores, candidates)
    return weights


class _RaggedEntmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, candidates: Ragged) -> Tensor:
        # One place more than entries: what pads a row is read from there and written to it.
        extended = torch.cat([scores, scores.new_full((1,), -torch.inf)])
        weights = torch.ones_like(extended)  # a single candidate has weight 1, whatever its score
        for position in candidates.blocks:
            padded = extended[position]
            padded = padded.maximum(padded.amax(1, keepdim=True) - _PADDING_DISTANCE)
            weights.scatter_(0, position.flatten(), entmax15(padded, dim=-1).flatten())
        weights = weights[: scores.numel()]
        ctx.save_for_backward(weights)
        ctx.candidates = candidates
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (weights,) = ctx.saved_tensors
        row, ptr = ctx.candidates.row, ctx.candidates.ptr
        # The Jacobian is diag(s) - s sᵀ / Σ s with s = √p.
        root = weights.sqrt()
        pushed = grad * root
        mean = segment_sum(pushed, ptr) / segment_sum(root, ptr)
        return pushed - mean[row] * root, None


def top_budget(
    p: Float[Tensor, " entries"], candidates: Ragged, budget: int | Int[Tensor, " rows"]
) -> Bool[Tensor, " entries"]:
    """Which entries Π_B keeps: at most `budget` positive ones a row, largest first, ties by position.

    Args:
        p: weights of `entmax15_ragged`.
        candidates: the rows.
        budget: of all rows, or of each.
    """
    most = budget if isinstance(budget, int) else budget[candidates.row]
    return (segment_rank(p.detach(), candidates.ptr) < most) & (p.detach() > 0)


def straight_through(
    p: Float[Tensor, " entries"], support: Bool[Tensor, " entries"], candidates: Ragged
) -> Float[Tensor, " entries"]:
    """Π_B(p) in value, p in gradient: w = p + (Π_B(p) - p).detach().

    Π_B(p) is p on the support, renormalised to 1 in each row. The support is an argument, because it
    stays fixed for a round while p moves with each step; where p has left the support of a row
    altogether, the weights are uniform on it.

    Args:
        p: weights of `entmax15_ragged`.
        support: kept entries, from `top_budget`; a row may keep none, and then has weight 0.
        candidates: the rows.
    """
    row, ptr = candidates.row, candidates.ptr
    value = p.detach()
    kept = torch.where(support, value, 0.0)
    total = segment_sum(kept, ptr)
    left = total > 0
    count = segment_sum(support.to(p.dtype), ptr)
    divisor = torch.where(left, total, count.clamp_min(1.0))
    projected = torch.where(left[row], kept, support.to(p.dtype)) / divisor[row]
    # p - value is exactly 0, so that the forward value is the projection to the last bit.
    return projected + (p - value) if p.requires_grad else projected
