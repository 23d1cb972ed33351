"""Candidate neighbours at one and at exactly two hops, and how difficult they are (DANCE, Alg. 3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fedtag.common.numerics.ragged import Ragged

# An upper bound of the entries of a block's product, before repeated paths are merged.
_BLOCK_ENTRIES = 8_000_000
# Standard deviations by which a sample's first cut exceeds its size.
_SLACK = 6.0
_STAY = np.int32(2**30)
# Paths that a thinned row walks at first, as a multiple of the cap: few nodes at two hops are reached by more.
_PATHS_PER_PLACE = 4


def one_hop(edge_index: Int[Tensor, "2 edges"], num_nodes: int) -> Ragged:
    """The neighbours of each node: the sources of the edges into it, without itself."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    return Ragged.from_pairs(target, source, num_nodes)


def two_hop(
    edge_index: Int[Tensor, "2 edges"],
    num_nodes: int,
    cap: int = 256,
    paths: int = 4_096,
    seed: int = 0,
    rows: Int[Tensor, " rows"] | None = None,
    block_entries: int = _BLOCK_ENTRIES,
) -> Ragged:
    """The nodes at distance exactly two: neither the node itself nor its neighbours.

    A set above `cap` is replaced by a sample of `cap` nodes without replacement, uniform over the set. A row with
    more than `paths` paths of length two walks only those to a random half of all nodes, or a quarter, an eighth …,
    about 4 · cap of them; where that reaches less than `cap`, the halving is taken back. So a row walks about `paths`
    at most, whatever the degrees are, unless more lead into a set that is not above the cap: degree · (degree + cap)
    bounds these. Blocks of rows bound memory. Who is drawn depends on (seed, node, candidate) only, not on the blocks
    or on which rows are asked for.

    Args:
        edge_index: an undirected edge stands in both directions.
        num_nodes: n.
        cap: largest size of a set, >= 1.
        paths: most paths of length two that a row walks before it is thinned, >= 1.
        seed: of the sampling.
        rows: nodes whose sets are wanted, in this order; all of them where absent.
        block_entries: paths that a block may hold, above what a single row needs.
    """
    adjacency = _adjacency(edge_index, num_nodes)
    wanted = np.arange(num_nodes) if rows is None else rows.cpu().numpy()
    walked = _paths(adjacency, adjacency)[wanted]
    thinning = np.maximum(walked / (_PATHS_PER_PLACE * cap), 1)
    halvings = np.where(walked > paths, np.log2(thinning), 0).astype(int)
    parts = []
    # From the thinnest on, so that a row which reaches too little comes again.
    for level in range(int(halvings.max(initial=0)), -1, -1):
        places = np.flatnonzero(halvings == level)
        thinned = _thinned(adjacency, level, seed)
        cost = _paths(adjacency, thinned)[wanted[places]]
        block = (np.cumsum(cost) - cost) // block_entries
        for begin, end in pairwise([*np.searchsorted(block, np.unique(block)).tolist(), places.size]):
            chosen = places[begin:end]
            found, row, index = _two_hop_block(adjacency, thinned, wanted[chosen], cap, seed)
            short = (found < cap) & (level > 0)
            halvings[chosen[short]] = level - 1
            parts.append((chosen[~short], np.minimum(found, cap)[~short], index[~short[row]]))
    return _joined(parts, wanted.size).to(edge_index.device)


def prefilter(
    candidates: Ragged,
    score: Float[Tensor, " nodes"],
    keep: int,
    order: Literal["largest", "smallest", "none"] = "largest",
    block_entries: int = _BLOCK_ENTRIES,
) -> Ragged:
    """The `keep` candidates of each row with the largest (or smallest) score, ties by id.

    Args:
        candidates: nodes for each row.
        score: one per node, e.g. `prediction_entropy`.
        keep: >= 0.
        order: `none` keeps all candidates.
    """
    if order == "none":
        return candidates
    # Places of nodes in one order of all are distinct, so that no tie is left to the device.
    hardest = torch.sort(score, descending=order == "largest", stable=True).indices
    place = torch.empty_like(hardest).scatter(0, hardest, torch.arange(score.numel(), device=score.device))
    width = candidates.width
    widest = int(width.max()) if width.numel() else 0
    column = torch.arange(widest, device=width.device)
    parts = [candidates.index[:0]]
    for rows in torch.arange(width.numel(), device=width.device).split(
        max(1, block_entries // max(widest, 1))
    ):
        inside = column < width[rows].unsqueeze(1)
        entry = torch.where(inside, candidates.ptr[rows].unsqueeze(1) + column, 0)
        ranked = torch.where(inside, place[candidates.index[entry]], score.numel())
        best = ranked.topk(min(keep, widest), dim=1, largest=False).indices.sort(dim=1).values
        parts.append(candidates.index[entry.gather(1, best)[inside.gather(1, best)]])
    kept = width.clamp_max(keep)
    return Ragged(torch.cat([kept.new_zeros(1), kept.cumsum(0)]), torch.cat(parts))


def prediction_entropy(probabilities: Float[Tensor, "nodes classes"]) -> Float[Tensor, " nodes"]:
    """The difficulty u_v = -Σ_c p(c | v) log p(c | v), in nats (DANCE, Eq. 21)."""
    return torch.special.entr(probabilities).sum(dim=1)


def _adjacency(edge_index: Int[Tensor, "2 edges"], num_nodes: int) -> sparse.csr_array:
    hop = one_hop(edge_index, num_nodes).to("cpu")
    index, ptr = hop.index.numpy().astype(np.int32), hop.ptr.numpy()
    return sparse.csr_array((np.ones(index.size, np.int32), index, ptr), shape=(num_nodes, num_nodes))


def _paths(near: sparse.csr_array, far: sparse.csr_array) -> NDArray[np.int64]:
    """The number of paths of each node: a step of the one graph, then one of the other."""
    count: NDArray[np.int64] = near @ np.diff(far.indptr).astype(np.int64)
    return count


def _thinned(adjacency: sparse.csr_array, halvings: int, seed: int) -> sparse.csr_array:
    """The edges to a random half of the nodes, or to half of these, …; the same nodes for all rows."""
    if not halvings:
        return adjacency
    node = np.arange(adjacency.shape[1], dtype=np.uint64)
    # Other draws than those of `_sample`, which begin with the seed itself.
    kept = _mix(_mix(~np.uint64(seed)) ^ node) < np.uint64(2 ** (64 - halvings))
    entry = kept[adjacency.indices]
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(entry)])[adjacency.indptr]
    return sparse.csr_array((adjacency.data[entry], adjacency.indices[entry], indptr), shape=adjacency.shape)


def _joined(
    parts: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]], num_rows: int
) -> Ragged:
    """Rows with their widths and entries, in the order of the rows."""
    width = np.zeros(num_rows + 1, np.int64)
    for rows, widths, _ in parts:
        width[rows + 1] = widths
    ptr = np.cumsum(width)
    joined = np.empty(ptr[-1], np.int64)
    for rows, widths, index in parts:
        joined[np.repeat(ptr[rows] - np.cumsum(widths) + widths, widths) + np.arange(index.size)] = index
    return Ragged(torch.from_numpy(ptr), torch.from_numpy(joined))


def _two_hop_block(
    adjacency: sparse.csr_array, thinned: sparse.csr_array, rows: NDArray[np.int64], cap: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """How many nodes each row finds, and the rows and nodes of the entries that the cap leaves."""
    # A step that stays where it is pushes a neighbour below zero, where no number of paths can bring it back.
    reach = adjacency[rows] @ (
        thinned - _STAY * sparse.eye_array(thinned.shape[0], dtype=np.int32, format="csr")
    )
    row = np.repeat(np.arange(rows.size), np.diff(reach.indptr))
    new = (reach.data > 0) & (reach.indices != rows[row])
    row, index = row[new], reach.indices[new]
    found = np.bincount(row, minlength=rows.size)
    if found.max(initial=0) > cap:
        keep = _sample(row, rows, index, found, cap, seed)
        row, index = row[keep], index[keep]
    entry = np.sort(row * np.int64(thinned.shape[1]) + index)
    row, index = entry // thinned.shape[1], (entry % thinned.shape[1]).astype(np.int32)
    return found.astype(np.int64), row, index


def _sample(
    row: NDArray[np.int64],
    nodes: NDArray[np.int64],
    candidate: NDArray[np.int32],
    width: NDArray[np.int64],
    cap: int,
    seed: int,
) -> NDArray[np.bool_]:
    """Entries to keep: all of a small row, the `cap` smallest random keys of a large one."""
    large = width > cap
    key = _mix(_mix(_mix(np.uint64(seed)) ^ nodes.astype(np.uint64))[row] ^ candidate.astype(np.uint64))
    # Keys are uniform: few above this level can be among the smallest, and most need no comparison.
    level = np.minimum(1.0, (cap + _SLACK * cap**0.5) / np.maximum(width, 1)) * (2.0**64 - 2048.0)
    low = key <= level.astype(np.uint64)[row]
    short = np.bincount(row[low], minlength=width.size) < cap
    keep = ~large[row]
    for chosen in (low & (large & ~short)[row], (large & short)[row]):
        entry = np.flatnonzero(chosen)
        keep[entry] = _among_smallest(row[entry], key[entry], cap)
    return keep


def _among_smallest(group: NDArray[np.int64], key: NDArray[np.uint64], cap: int) -> NDArray[np.bool_]:
    """Whether an entry's key is among the `cap` smallest of its group; groups ascend, keys are distinct."""
    _, start, place, size = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
    if not size.size:
        return np.zeros(0, np.bool_)
    padded = np.full((size.size, size.max()), np.iinfo(np.uint64).max)
    padded[place, np.arange(group.size) - start[place]] = key
    limit = np.partition(padded, cap - 1, axis=1)[:, cap - 1]
    return key <= limit[place]


def _mix(value: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele et al., 2014): a bijection that scatters its argument."""
    mixed = np.atleast_1d(np.asarray(value, np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed
