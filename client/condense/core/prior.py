"""The evidence prior: how well two core nodes are linked by their selected chunks (DANCE, Eq. 12-13)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from fedtag.client.condense.core.nearest import nearest
from fedtag.common.numerics.ragged import Ragged

# Elements of what is gathered at once.
_BLOCK_ELEMENTS = 1 << 24
_ALL_BITS = (1 << 32) - 1


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

    def at(self, support: Int[Tensor, "core width"]) -> Float[Tensor, "core width"]:
        """S between each row and those of its support."""
        (rows, width), chunks, dim = support.shape, self.chunks.shape[1], self.vectors.shape[1]
        parts = [self.vectors.new_empty(0, width)]
        for part in torch.arange(rows, device=support.device).split(
            max(1, _BLOCK_ELEMENTS // max(width * chunks * dim, 1))
        ):
            own, theirs = self.chunks[part], self.chunks[support[part]].flatten(1)
            product = self.vectors[own] @ self.vectors[theirs].transpose(1, 2)
            same = (own.unsqueeze(2) == theirs.unsqueeze(1)) & (own < self.vectors.shape[0] - 1).unsqueeze(2)
            best = torch.where(same, 1.0, product).amax(1).view(-1, width, chunks).amax(2)
            parts.append(best.clamp(0.0, 1.0))
        return torch.cat(parts)

    def strongest(self, count: int) -> Int[Tensor, "core count"]:
        """About the `count` largest S of each row with S > 0, the row itself left out; the number of rows pads.

        Rows that share a chunk, or have one of the `count` nearest to a chunk of the other, are compared by these
        chunks. Of the rows that share one, the first by id stand for all.
        """
        rows, width = self.chunks.shape
        close, product = self._nearest_chunks(count)
        owners = self._owners(count + 1)
        parts = [self.chunks.new_empty(0, count)]
        for part in torch.arange(rows, device=self.chunks.device).split(
            max(1, _BLOCK_ELEMENTS // (width * close.shape[1] * owners.shape[1]))
        ):
            own = self.chunks[part]
            found = owners[close[own]].flatten(1)
            value = product[own].unsqueeze(3).expand(-1, -1, -1, owners.shape[1]).flatten(1)
            value = torch.where((found < rows) & (found != part.unsqueeze(1)), value, 0.0)
            # Row and S as one number: the first of a row's doubles has the largest S.
            key = torch.sort((found << 32) - value.view(torch.int32), dim=1).values
            found = (key + _ALL_BITS) >> 32
            value = ((found << 32) - key).int().view(torch.float32)
            value[:, 1:].masked_fill_(found[:, 1:] == found[:, :-1], 0.0)
            best = top_columns(value, count)
            parts.append(torch.where(value.gather(1, best) > 0, found.gather(1, best), rows))
        return torch.cat(parts)

    def _nearest_chunks(self, count: int) -> tuple[Int[Tensor, "vectors _"], Float[Tensor, "vectors _"]]:
        """Each distinct chunk and about the nearest others, with their cosines, at least 0 and of single precision."""
        distinct = self.vectors.shape[0] - 1
        itself = torch.arange(distinct + 1, device=self.chunks.device).unsqueeze(1)
        cosine = (itself < distinct).float()
        if distinct < 2:
            return itself, cosine
        ids, product = nearest(self.vectors[:-1], min(count, distinct - 1))
        ids, product = pad(ids, (0, 0, 0, 1), value=distinct), pad(product, (0, 0, 0, 1)).float()
        return torch.cat([itself, ids], dim=1), torch.cat([cosine, product.clamp(0.0, 1.0)], dim=1)

    def _owners(self, count: int) -> Int[Tensor, "vectors count"]:
        """The first rows that have each distinct chunk; the number of rows pads."""
        rows, width = self.chunks.shape
        chunk, order = torch.sort(self.chunks.flatten(), stable=True)
        start = torch.searchsorted(chunk, torch.arange(self.vectors.shape[0], device=chunk.device))
        place = torch.arange(chunk.numel(), device=chunk.device) - start[chunk]
        kept = (place < count) & (chunk < self.vectors.shape[0] - 1)
        owners = self.chunks.new_full((self.vectors.shape[0], count), rows)
        owners[chunk[kept], place[kept]] = order[kept] // width
        return owners


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
