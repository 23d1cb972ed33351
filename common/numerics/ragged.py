"""Sets of different sizes, one per row, in compressed form, and reductions over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_SMALL_BLOCK = 1 << 15


@dataclass(frozen=True, eq=False)
class Ragged:
    """One set of ids per row.

    Row i is `index[ptr[i]:ptr[i + 1]]`: distinct, ascending; it may be empty. Values that belong to the
    entries (scores, weights) are plain tensors aligned with `index`.
    """

    ptr: Int[Tensor, " pointers"]
    index: Int[Tensor, " entries"]

    @classmethod
    def from_pairs(cls, row: Int[Tensor, " pairs"], index: Int[Tensor, " pairs"], num_rows: int) -> Ragged:
        """The sets of the pairs (row, id), in any order; repeated pairs count once."""
        # Row and id as one number, for which no id has to be read from the device.
        key = torch.unique((row << 32) + index, sorted=True)
        starts = torch.arange(num_rows + 1, device=row.device) << 32
        return cls(torch.searchsorted(key, starts), key & 0xFFFFFFFF)

    @classmethod
    def singletons(cls, index: Int[Tensor, " rows"]) -> Ragged:
        """One id in each row."""
        return cls(torch.arange(index.numel() + 1, device=index.device), index)

    @property
    def num_rows(self) -> int:
        return self.ptr.numel() - 1

    @property
    def width(self) -> Int[Tensor, " rows"]:
        """The size of each row's set."""
        return self.ptr.diff()

    @cached_property
    def row(self) -> Int[Tensor, " entries"]:
        """The row of each entry."""
        return row_of_entries(self.ptr, self.index.numel())

    @cached_property
    def by_id(self) -> Int[Tensor, " entries"]:
        """Positions in `index` in the order of the ids, rows ascending within an id."""
        return torch.sort(self.index, stable=True).indices

    @cached_property
    def blocks(self) -> tuple[Int[Tensor, "_ _"], ...]:
        """The rows of more than one entry, padded: for each block of rows the positions of their entries.

        The number of entries, which is no position, stands for none. Rows of like width share a block, which at
        most doubles the entries; small blocks are joined, because each costs a call of everything done with it.
        """
        width, entries = self.width, self.index.numel()
        # Widths 2, 3-4, 5-8, … : the exponent of the next power of two, exact in float64.
        exponent = width.clamp_min(1).double().log2().ceil().long()
        most = torch.zeros(64, dtype=width.dtype, device=width.device)
        counts, most = torch.stack(
            [
                most.index_add(0, exponent, torch.ones_like(width)),
                most.scatter_reduce(0, exponent, width, "amax"),
            ]
        ).tolist()
        order = torch.sort(exponent, descending=True, stable=True).indices
        blocks = []
        begin = end = widest = 0
        for power in range(len(counts) - 1, 0, -1):
            widest = power if begin == end else widest
            end += counts[power]
            # The next narrower rows join where the block stays small.
            if power > 1 and (end - begin + counts[power - 1]) << widest <= _SMALL_BLOCK:
                continue
            if end > begin:
                rows = order[begin:end]
                column = torch.arange(most[widest], device=width.device)
                position = self.ptr[rows].unsqueeze(1) + column
                blocks.append(torch.where(column < width[rows].unsqueeze(1), position, entries))
            begin = end
        return tuple(blocks)

    def to(self, device: torch.device | str) -> Ragged:
        return Ragged(self.ptr.to(device), self.index.to(device))

    def entries_of(self, rows: Int[Tensor, " chosen"]) -> Int[Tensor, " chosen_entries"]:
        """Positions in `index` of the entries of the given rows, row after row."""
        return concatenated_ranges(self.ptr[rows], self.width[rows])

    def select(self, rows: Int[Tensor, " chosen"]) -> Ragged:
        """The given rows, in the given order."""
        width = self.width[rows]
        return Ragged(torch.cat([width.new_zeros(1), width.cumsum(0)]), self.index[self.entries_of(rows)])

    def filter(self, keep: Bool[Tensor, " entries"]) -> Ragged:
        """The same rows with the kept entries only."""
        kept = torch.cat([self.ptr.new_zeros(1), keep.long().cumsum(0)])
        return Ragged(kept[self.ptr], self.index[keep])

    def compact(self) -> tuple[Int[Tensor, " distinct"], Ragged]:
        """The distinct ids, ascending, and the same sets as positions among them.

        What is computed per id is then computed only for the ids that occur.
        """
        if self.index.numel() == 0:
            return self.index, self
        present = torch.zeros(int(self.index.max()) + 1, dtype=torch.bool, device=self.index.device)
        present[self.index] = True
        return present.nonzero().squeeze(1), Ragged(self.ptr, (present.cumsum(0) - 1)[self.index])


def merge(*parts: Ragged) -> Ragged:
    """The union, row by row, of sets over the same rows."""
    row = torch.cat([part.row for part in parts])
    return Ragged.from_pairs(row, torch.cat([part.index for part in parts]), parts[0].num_rows)


def stack(*parts: Ragged) -> Ragged:
    """The rows of all parts, one part below the other."""
    ptr, total = [parts[0].ptr], parts[0].ptr[-1]
    for part in parts[1:]:
        ptr.append(part.ptr[1:] + total)
        total = total + part.ptr[-1]
    return Ragged(torch.cat(ptr), torch.cat([part.index for part in parts]))


def row_of_entries(ptr: Int[Tensor, " pointers"], entries: int) -> Int[Tensor, " entries"]:
    """The row of each entry of a compressed layout; their number need then not be read from a device."""
    rows = torch.arange(ptr.numel() - 1, device=ptr.device)
    return torch.repeat_interleave(rows, ptr.diff(), output_size=entries)


def concatenated_ranges(
    start: Int[Tensor, " ranges"], width: Int[Tensor, " ranges"]
) -> Int[Tensor, " total"]:
    """start[0], start[0] + 1, … (width[0] numbers), start[1], … one range after the other."""
    offset = start - (width.cumsum(0) - width)
    shift = torch.repeat_interleave(offset, width)
    return shift + torch.arange(shift.numel(), device=start.device)


def segment_sum(
    values: Float[Tensor, "entries ..."], ptr: Int[Tensor, " pointers"]
) -> Float[Tensor, "rows ..."]:
    """The sum of the values of each row, in their order on every device; 0 for an empty one."""
    return torch.segment_reduce(values, "sum", offsets=ptr, initial=0.0, unsafe=True)


def segment_max(
    values: Float[Tensor, " entries"], row: Int[Tensor, " entries"], num_rows: int
) -> Float[Tensor, " rows"]:
    """The largest value of each row; -inf for an empty one."""
    start = values.new_full((num_rows,), -torch.inf)
    return start.scatter_reduce(0, row, values, "amax")


def segment_softmax(
    scores: Float[Tensor, " entries"], row: Int[Tensor, " entries"], ptr: Int[Tensor, " pointers"]
) -> Float[Tensor, " entries"]:
    """The softmax of the scores within each row.

    Args:
        scores: row after row.
        row: of each entry.
        ptr: where rows begin, and the number of entries.
    """
    weight = (scores - segment_max(scores.detach(), row, ptr.numel() - 1)[row]).exp()
    return weight / segment_sum(weight, ptr)[row]


def segment_rank(values: Float[Tensor, " entries"], ptr: Int[Tensor, " pointers"]) -> Int[Tensor, " entries"]:
    """The place of each entry in its row by decreasing value, from 0; ties by position."""
    row = row_of_entries(ptr, values.numel())
    if values.dtype == torch.float32:
        # Row and value as one integer: rows ascend already, so that this sort is several times faster than two.
        order = torch.sort((row << 32) - _ordered_bits(values), stable=True).indices
    else:
        order = torch.sort(values, descending=True, stable=True).indices
        order = order[torch.sort(row[order], stable=True).indices]
    place = torch.arange(values.numel(), device=values.device) - ptr[row]
    return torch.empty_like(place).scatter(0, order, place)


def _ordered_bits(values: Float[Tensor, " entries"]) -> Int[Tensor, " entries"]:
    """Integers of 32 bits that stand in the order of the single-precision values; equal values give equal ones."""
    bits = (values + 0.0).view(torch.int32)  # the sum has no negative zero
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
