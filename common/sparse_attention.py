"""Sparse attention over ragged candidate sets under a hard budget (DANCE, Eq. 6 and 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from entmax import entmax15
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from common.ragged import row_of_entries, segment_rank, segment_sum

# Entries more than 2 below the largest of their row get exactly 0 under 1.5-entmax, so that padding at
# this distance changes nothing, and is finite.
_PADDING_DISTANCE = 4.0
# Padded entries up to which rows of any widths are worked together, since one call for each width costs more.
_SMALL_BLOCK = 1 << 15


def entmax15_ragged(
    scores: Float[Tensor, " entries"], ptr: Int[Tensor, " pointers"]
) -> Float[Tensor, " entries"]:
    """The exact 1.5-entmax (Peters et al., 2019) of the scores within each row.

    Rows are padded in blocks of like width, which at most doubles the entries; small blocks are joined.
    Differentiable once.

    Args:
        scores: finite.
        ptr: row i has the entries ptr[i] to ptr[i + 1]; rows may be empty.

    Returns:
        Non-negative weights that sum to 1 in each non-empty row.
    """
    weights: Tensor = _RaggedEntmax.apply(scores, ptr)
    return weights


class _RaggedEntmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, ptr: Tensor) -> Tensor:
        entries = scores.numel()
        width = ptr.diff()
        # One place more than entries: what pads a row is read from there and written to it.
        extended = torch.cat([scores, scores.new_full((1,), -torch.inf)])
        weights = torch.ones_like(extended)  # a single candidate has weight 1, whatever its score
        for rows, widest in _blocks(width):
            column = torch.arange(widest, device=scores.device)
            position = ptr[rows].unsqueeze(1) + column
            position = torch.where(column < width[rows].unsqueeze(1), position, entries)
            padded = extended[position]
            padded = padded.maximum(padded.amax(1, keepdim=True) - _PADDING_DISTANCE)
            weights.scatter_(0, position.flatten(), entmax15(padded, dim=-1).flatten())
        weights = weights[:entries]
        ctx.save_for_backward(weights, ptr)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, ptr = ctx.saved_tensors
        # The Jacobian is diag(s) - s sᵀ / Σ s with s = √p.
        row, root = row_of_entries(ptr), weights.sqrt()
        pushed = grad * root
        num_rows = ptr.numel() - 1
        mean = segment_sum(pushed, row, num_rows) / segment_sum(root, row, num_rows)
        return pushed - mean[row] * root, None


def _blocks(width: Int[Tensor, " rows"]) -> Iterator[tuple[Int[Tensor, " chosen"], int]]:
    """The rows of more than one entry in blocks, wide rows first, and the largest width in each block."""
    # Widths 2, 3-4, 5-8, … : the exponent of the next power of two, exact in float64.
    exponent = width.clamp_min(1).double().log2().ceil().long()
    counts = torch.bincount(exponent).tolist()
    order = torch.sort(width, descending=True, stable=True).indices
    begin = end = 0
    for power in range(len(counts) - 1, 0, -1):
        end += counts[power]
        following = end + counts[power - 1]
        if begin == end:
            continue
        widest = int(width[order[begin]])
        if power > 1 and (following - begin) * widest <= _SMALL_BLOCK:
            continue
        yield order[begin:end], widest
        begin = end


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
