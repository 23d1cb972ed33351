"""Candidate neighbours at one and at exactly two hops, and how difficult they are (DANCE, Alg. 3)."""

from __future__ import annotations

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


def one_hop(edge_index: Int[Tensor, "2 edges"], num_nodes: int) -> Ragged:
    """The neighbours of each node: the sources of the edges into it, without itself."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    return Ragged.from_pairs(target, source, num_nodes)


def two_hop(
    edge_index: Int[Tensor, "2 edges"],
    num_nodes: int,
    cap: int = 256,
    seed: int = 0,
    rows: Int[Tensor, " rows"] | None = None,
    block_entries: int = _BLOCK_ENTRIES,
) -> Ragged:
    """The nodes at distance exactly two: neither the node itself nor its neighbours.

    Rows are worked in blocks of bounded memory. A set above `cap` is replaced by a sample of `cap`
    nodes without replacement; who is drawn depends on (seed, node, candidate) only, not on the blocks
    or on which rows are asked for.

    Args:
        edge_index: an undirected edge stands in both directions.
        num_nodes: n.
        cap: largest size of a set, >= 1.
        seed: of the sampling.
        rows: nodes whose sets are wanted, in this order; all of them where absent.
        block_entries: paths of length two that a block may hold, above what a single row needs.
    """
    adjacency = _adjacency(edge_index, num_nodes)
    wanted = np.arange(num_nodes) if rows is None else rows.cpu().numpy()
    paths = (adjacency @ np.diff(adjacency.indptr).astype(np.int64))[wanted]
    block = (np.cumsum(paths) - paths) // block_entries
    bounds = [*np.searchsorted(block, np.unique(block)).tolist(), wanted.size]
    widths, indices = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)]
    for begin, end in pairwise(bounds):
        width, index = _two_hop_block(adjacency, wanted[begin:end], cap, seed)
        widths.append(width)
        indices.append(index)
    ptr = torch.from_numpy(np.cumsum(np.concatenate(widths)))
    return Ragged(ptr, torch.from_numpy(np.concatenate(indices))).to(edge_index.device)


def prefilter(
    candidates: Ragged,
    score: Float[Tensor, " nodes"],
    keep: int,
    order: Literal["largest", "smallest", "none"] = "largest",
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
    # Places of nodes in one order of all are whole numbers: with the row before them, one sort does for all rows.
    hardest = torch.sort(score, descending=order == "largest", stable=True).indices
    place = torch.empty_like(hardest).scatter(0, hardest, torch.arange(score.numel(), device=score.device))
    row = candidates.row
    sorted_entries = torch.sort(row * score.numel() + place[candidates.index]).indices
    rank = torch.arange(row.numel(), device=row.device) - candidates.ptr[row]
    kept = sorted_entries[rank < keep].sort().values
    width = candidates.width.clamp_max(keep)
    return Ragged(torch.cat([width.new_zeros(1), width.cumsum(0)]), candidates.index[kept])


def prediction_entropy(probabilities: Float[Tensor, "nodes classes"]) -> Float[Tensor, " nodes"]:
    """The difficulty u_v = -Σ_c p(c | v) log p(c | v), in nats (DANCE, Eq. 21)."""
    return torch.special.entr(probabilities).sum(dim=1)


def _adjacency(edge_index: Int[Tensor, "2 edges"], num_nodes: int) -> sparse.csr_array:
    hop = one_hop(edge_index, num_nodes).to("cpu")
    index, ptr = hop.index.numpy().astype(np.int32), hop.ptr.numpy()
    return sparse.csr_array((np.ones(index.size, np.int32), index, ptr), shape=(num_nodes, num_nodes))


def _two_hop_block(
    adjacency: sparse.csr_array, rows: NDArray[np.int64], cap: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    near = adjacency[rows]
    product = near @ adjacency
    product.sort_indices()
    # Self and neighbours are pushed below zero, where no number of paths can bring them back.
    place = np.arange(rows.size + 1)
    own = sparse.csr_array((np.ones(rows.size, np.int32), rows, place), shape=near.shape)
    reach = product - (near + own) * np.int32(2**30)
    row = np.repeat(np.arange(rows.size), np.diff(reach.indptr))[reach.data > 0]
    index = reach.indices[reach.data > 0].astype(np.int64)
    width = np.bincount(row, minlength=rows.size)
    if width.max(initial=0) > cap:
        keep = _sample(row, rows[row], index, width, cap, seed)
        row, index = row[keep], index[keep]
        width = np.minimum(width, cap)
    return width.astype(np.int64), index


def _sample(
    row: NDArray[np.int64],
    node: NDArray[np.int64],
    candidate: NDArray[np.int64],
    width: NDArray[np.int64],
    cap: int,
    seed: int,
) -> NDArray[np.bool_]:
    """Entries to keep: all of a small row, the `cap` smallest random keys of a large one."""
    keep = width[row] <= cap
    large = np.flatnonzero(~keep)
    group = (np.cumsum(width > cap) - 1)[row[large]]
    key = _mix(
        _mix(_mix(np.uint64(seed)) ^ node[large].astype(np.uint64)) ^ candidate[large].astype(np.uint64)
    )
    # Keys are uniform: few above this level can be among the smallest, and most need no comparison.
    sizes = width[width > cap]
    level = np.minimum(1.0, (cap + _SLACK * cap**0.5) / sizes) * (2.0**64 - 2048.0)
    low = key <= level.astype(np.uint64)[group]
    short = (np.bincount(group[low], minlength=sizes.size) < cap)[group]
    for chosen in (low & ~short, short):
        keep[large[chosen]] = _among_smallest(group[chosen], key[chosen], cap)
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
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
