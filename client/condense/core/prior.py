"""The evidence prior: how well two core nodes are linked by their selected chunks (DANCE, Eq. 12-13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from fedtag.common.numerics.ragged import Ragged


@dataclass(frozen=True, eq=False)
class EvidencePrior:
    """S_ij = max(0, largest cosine over the chunk pairs of i and j); a shared chunk gives exactly 1.

    `vectors` are the distinct chunks in unit length, and a last row of zeros; `chunks` are each row's
    positions among them, padded with that last row, which adds 0 to any maximum.
    """

    vectors: Float[Tensor, "vectors dim"]
    chunks: Int[Tensor, "core width"]

    @classmethod
    def without_evidence(cls, rows: int, like: Float[Tensor, "any dim"]) -> EvidencePrior:
        """S = 0 between so many rows, on the device of a tensor and as wide as it."""
        return cls(
            like.new_zeros(1, like.shape[1]), torch.zeros(rows, 1, dtype=torch.long, device=like.device)
        )

    @property
    def num_rows(self) -> int:
        return self.chunks.shape[0]

    def rows(self, begin: int, end: int) -> Float[Tensor, "block core"]:
        """S between the rows begin to end and all rows, with S_ii as it comes."""
        own = self.chunks[begin:end]
        closeness = self.vectors[own].flatten(0, 1) @ self.vectors.T
        closeness = closeness.view(*own.shape, self.vectors.shape[0]).amax(1).clamp(0.0, 1.0)
        closeness.scatter_(1, own, 1.0)
        closeness[:, -1] = 0.0
        return _gathered_maximum(closeness, self.chunks)


def evidence_prior(chunks: Ragged, vectors: Float[Tensor, "all_chunks dim"]) -> EvidencePrior:
    """The prior over the rows of `chunks`.

    Args:
        chunks: the selected chunks of each core node, at most a few.
        vectors: the embedding of every chunk, of any length.
    """
    ids, local = chunks.compact()
    distinct = normalize(vectors[ids].detach(), dim=1)
    distinct = torch.cat([distinct, distinct.new_zeros(1, vectors.shape[1])])
    width = max(1, int(chunks.width.max())) if chunks.num_rows else 1
    padded = local.index.new_full((chunks.num_rows, width), ids.numel())
    column = torch.arange(local.index.numel(), device=local.index.device) - local.ptr[local.row]
    padded[local.row, column] = local.index
    return EvidencePrior(distinct, padded)


def top_columns(values: Float[Tensor, "rows columns"], count: int) -> Int[Tensor, "rows count"]:
    """The columns of the `count` largest values of each row, ascending; ties go to the smaller column."""
    if count == 0:
        return torch.empty(values.shape[0], 0, dtype=torch.long, device=values.device)
    least = values.topk(count, dim=1).values[:, -1:]
    above, level = values > least, values == least
    room = count - above.sum(dim=1, keepdim=True)
    keep = above | (level & (level.cumsum(dim=1) <= room))
    return keep.nonzero()[:, 1].view(values.shape[0], count)


def _gathered_maximum(
    closeness: Float[Tensor, "block distinct"], chunks: Int[Tensor, "core width"]
) -> Float[Tensor, "block core"]:
    best = closeness[:, chunks[:, 0]]
    for column in chunks.T[1:]:
        best = torch.maximum(best, closeness[:, column])
    return best
