"""Sparse attention over ragged candidate sets under a hard budget (DANCE, Eq. 6 and 8)."""

from __future__ import annotations

import torch
from entmax import entmax15
from jaxtyping import Bool, Float, Int
from torch import Tensor

from common.ragged import row_of_entries, segment_rank, segment_sum

# Entries more than 2 below the largest of their row get exactly 0 under 1.5-entmax, so that padding at
# this distance changes nothing, and is finite.
_PADDING_DISTANCE = 4.0


def entmax15_ragged(
    scores: Float[Tensor, " entries"], ptr: Int[Tensor, " pointers"]
) -> Float[Tensor, " entries"]:
    """The exact 1.5-entmax (Peters et al., 2019) of the scores within each row.

    Rows are padded in buckets of like width, which at most doubles the entries. Differentiable.

    Args:
        scores: finite.
        ptr: row i has the entries ptr[i] to ptr[i + 1]; rows may be empty.

    Returns:
        Non-negative weights that sum to 1 in each non-empty row.
    """
    width = ptr.diff()
    # Widths 1, 2, 3-4, 5-8, … : the exponent of the next power of two, exact in float64.
    bucket = torch.where(width > 0, width.clamp_min(1).double().log2().ceil().long(), -1)
    positions, weights = [scores.new_empty(0, dtype=torch.long)], [scores[:0]]
    for exponent in torch.unique(bucket).tolist():
        if exponent < 0:
            continue
        rows = (bucket == exponent).nonzero().squeeze(1)
        if exponent == 0:  # a single candidate has weight 1, whatever its score
            positions.append(ptr[rows])
            weights.append(torch.ones_like(scores[: rows.numel()]) + 0.0 * scores[ptr[rows]])
            continue
        column = torch.arange(int(width[rows].max()), device=scores.device)
        present = column < width[rows].unsqueeze(1)
        position = ptr[rows].unsqueeze(1) + column.minimum(width[rows].unsqueeze(1) - 1)
        padded = scores[position]
        floor = padded.detach().amax(1, keepdim=True) - _PADDING_DISTANCE
        padded = torch.where(present, padded.maximum(floor), floor)
        weights.append(entmax15(padded, dim=-1)[present])
        positions.append(position[present])
    return torch.zeros_like(scores).index_copy(0, torch.cat(positions), torch.cat(weights))


def top_budget(
    p: Float[Tensor, " entries"], ptr: Int[Tensor, " pointers"], budget: int
) -> Bool[Tensor, " entries"]:
    """Which entries Π_B keeps: at most `budget` positive ones a row, largest first, ties by position."""
    return (segment_rank(p.detach(), ptr) < budget) & (p.detach() > 0)


def straight_through(
    p: Float[Tensor, " entries"], support: Bool[Tensor, " entries"], ptr: Int[Tensor, " pointers"]
) -> Float[Tensor, " entries"]:
    """Π_B(p) in value, p in gradient: w = p + (Π_B(p) - p).detach().

    Π_B(p) is p on the support, renormalised to 1 in each row. The support is an argument, because it
    stays fixed for a round while p moves with each step; where p has left the support of a row
    altogether, the weights are uniform on it.

    Args:
        p: weights of `entmax15_ragged`.
        support: kept entries, from `top_budget`; a row may keep none, and then has weight 0.
        ptr: the rows.
    """
    row, num_rows = row_of_entries(ptr), ptr.numel() - 1
    value = p.detach()
    kept = torch.where(support, value, 0.0)
    total = segment_sum(kept, row, num_rows)[row]
    count = segment_sum(support.to(p.dtype), row, num_rows)[row]
    uniform = support.to(p.dtype) / count.clamp_min(1.0)
    projected = torch.where(total > 0, kept / torch.where(total > 0, total, 1.0), uniform)
    # p - value is exactly 0, so that the forward value is the projection to the last bit.
    return projected + (p - value)
