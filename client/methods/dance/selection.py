"""Choosing neighbours and chunks by sparse attention, and summing what was chosen (DANCE, Eq. 5-9).

Scores and sums run over ragged candidates without gathering vectors, forward and backward: memory grows
with the candidates, not with candidates times dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding_bag

from fedtag.common.numerics.attention import entmax15_ragged, straight_through, top_budget
from fedtag.common.numerics.ragged import Ragged, concatenated_ranges


def gather_scores(
    query: Float[Tensor, "rows dim"], key: Float[Tensor, "nodes dim"], candidates: Ragged
) -> Float[Tensor, " entries"]:
    """The scaled inner product of each row's query with each candidate's key (Eq. 5 and 8).

    Args:
        query: W_q g_v, or W_s g_v for chunks.
        key: W_k t_u for every node, or e for every chunk.
        candidates: for each row, ids of keys.
    """
    product: Tensor = _PairProduct.apply(query, key, candidates)
    return product / math.sqrt(query.shape[1])


def weighted_sum(
    weights: Float[Tensor, " entries"], values: Float[Tensor, "nodes dim"], candidates: Ragged
) -> Float[Tensor, "rows dim"]:
    """Σ_u w_vu value_u for each row v (Eq. 9); 0 for a row without candidates."""
    total: Tensor = _WeightedSum.apply(weights, values, candidates)
    return total


def choose(scores: Float[Tensor, " entries"], candidates: Ragged, budget: int) -> Bool[Tensor, " entries"]:
    """The support of Π_B(entmax_1.5(s)): which candidates a round keeps (Eq. 6 and 8)."""
    return top_budget(entmax15_ragged(scores.detach(), candidates), candidates, budget)


def attention(
    scores: Float[Tensor, " entries"], candidates: Ragged, support: Bool[Tensor, " entries"]
) -> Float[Tensor, " entries"]:
    """Π_B(entmax_1.5(s)) on a fixed support, with the gradient of entmax (Eq. 6 and 8)."""
    return straight_through(entmax15_ragged(scores, candidates), support, candidates)


def hop_mixture(hop_logits: Float[Tensor, " hops"], hops: Sequence[Ragged]) -> Float[Tensor, "rows hops"]:
    """γ for each row: the softmax of the logits over the hops that have candidates, 0 for the others."""
    return _mixture(hop_logits, torch.stack([hop.width > 0 for hop in hops], dim=1))


def context(
    hop_logits: Float[Tensor, " hops"],
    stacked: Ragged,
    weights: Float[Tensor, " entries"],
    t: Float[Tensor, "nodes dim"],
) -> Float[Tensor, "rows dim"]:
    """The hierarchical context c_v = Σ_ℓ γ_ℓ Σ_u α_vu t_u (Eq. 7).

    Args:
        hop_logits: one trainable logit per hop.
        stacked: the candidates of each hop over the same rows, one hop's rows below the other's.
        weights: α, from `attention`, in the same order.
        t: text embedding of every node.
    """
    hops = hop_logits.numel()
    rows = stacked.num_rows // hops
    mixture = _mixture(hop_logits, stacked.width.view(hops, rows).T > 0)
    share = mixture.T.flatten()[stacked.row]
    return weighted_sum(weights * share, t, stacked).view(hops, rows, t.shape[1]).sum(dim=0)


def _mixture(
    hop_logits: Float[Tensor, " hops"], present: Bool[Tensor, "rows hops"]
) -> Float[Tensor, "rows hops"]:
    # A row without any candidate keeps all logits, so that no softmax is over nothing.
    dropped = ~present & present.any(dim=1, keepdim=True)
    mixture = hop_logits.expand(present.shape).masked_fill(dropped, -torch.inf).softmax(dim=1)
    return mixture * present


def chunk_candidates(selected: Ragged, chunk_ptr: Int[Tensor, " pointers"]) -> Ragged:
    """The chunks of the selected nodes of each row.

    Args:
        selected: nodes for each row, all hops together.
        chunk_ptr: node u has the chunks chunk_ptr[u] to chunk_ptr[u + 1].
    """
    chunks = chunk_ptr.diff()[selected.index]
    # Nodes ascend within a row and chunks follow their nodes, so that chunk ids ascend as well.
    total = torch.cat([chunks.new_zeros(1), chunks.cumsum(0)])
    return Ragged(total[selected.ptr], concatenated_ranges(chunk_ptr[selected.index], chunks))


# An embedding bag sums weighted rows of a table, and the gradient of its weights is the product of pairs: both
# are what is needed here, without an intermediate of entries times dimension.


def _pair_products(rows: Tensor, table: Tensor, sets: Ragged) -> Tensor:
    """rows[row_i] · table[index_i] for each entry i."""
    if sets.index.numel() == 0:
        return rows.new_empty(0)
    products: Tensor = torch.ops.aten._embedding_bag_per_sample_weights_backward(
        rows.contiguous(), table.contiguous(), sets.index, sets.index.new_zeros(1), sets.row, 0
    )
    return products


def _bag_sums(weights: Tensor, table: Tensor, ptr: Tensor, index: Tensor) -> Tensor:
    """Σ weights_i table[index_i] over the entries of each row."""
    if index.numel() == 0:
        return table.new_zeros(ptr.numel() - 1, table.shape[1])
    return embedding_bag(
        index, table.contiguous(), ptr[:-1], mode="sum", per_sample_weights=weights.contiguous()
    )


def _transposed_sums(weights: Tensor, rows: Tensor, sets: Ragged, size: int) -> Tensor:
    """Σ weights_i rows[row_i] over the entries of each id, ids from 0 to size - 1."""
    order = sets.by_id
    count = torch.bincount(sets.index, minlength=size)
    ptr = torch.cat([count.new_zeros(1), count.cumsum(0)])
    return _bag_sums(weights[order], rows, ptr, sets.row[order])


class _PairProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, sets: Ragged) -> Tensor:
        ctx.save_for_backward(query, key)
        ctx.sets = sets
        return _pair_products(query, key, sets)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key = ctx.saved_tensors
        sets, (to_query, to_key) = ctx.sets, ctx.needs_input_grad[:2]
        grad_query = _bag_sums(grad, key, sets.ptr, sets.index) if to_query else None
        grad_key = _transposed_sums(grad, query, sets, key.shape[0]) if to_key else None
        return grad_query, grad_key, None


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, sets: Ragged) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.sets = sets
        return _bag_sums(weights, values, sets.ptr, sets.index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, values = ctx.saved_tensors
        sets, (to_weights, to_values) = ctx.sets, ctx.needs_input_grad[:2]
        grad_weights = _pair_products(grad, values, sets) if to_weights else None
        grad_values = _transposed_sums(weights, grad, sets, values.shape[0]) if to_values else None
        return grad_weights, grad_values, None
