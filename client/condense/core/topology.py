"""The propagation graph that is rebuilt on the core (DANCE, Eq. 12-14, Alg. 4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from fedtag.client.condense.core.candidates import candidate_support, indexed_support
from fedtag.client.condense.core.prior import EvidencePrior
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.numerics.ragged import Ragged, segment_max, segment_rank
from fedtag.common.numerics.self_expression import self_expression


@dataclass(frozen=True, eq=False)
class Topology:
    """A propagation matrix over the core.

    `density` is the share of the K (K - 1) possible links that are present; `fell_back` tells that
    self-expression left no link at all, and that similarity on the candidates took its place;
    `approximate` that the candidates came from an index.
    """

    adjacency: Adjacency
    density: float
    fell_back: bool
    approximate: bool
    iterations: int


@torch.no_grad()
def rebuild_topology(
    x: Float[Tensor, "core dim"],
    prior: EvidencePrior,
    *,
    alpha: float,
    beta: float,
    candidates: int = 10,
    neighbours: int = 5,
    exact_rows: int = 8192,
    block: int = 256,
) -> Topology:
    """Links core nodes by prior-regularised sparse self-expression, and keeps the strongest.

    Args:
        x: fused features of the core; no gradient passes.
        prior: S over the same rows.
        alpha: weight of the reconstruction, > 0.
        beta: weight of sparsity, >= 0. With β / 2α above the largest cosine of two rows, no link is left.
        candidates: q, taken by similarity and again by prior.
        neighbours: k, links that each row keeps before the graph is made symmetric.
        exact_rows: most rows whose candidates are found by comparing all pairs.
        block: rows worked at once; memory is then O(block · K).
    """
    unit = normalize(x.detach(), dim=1)
    approximate = unit.shape[0] > exact_rows
    if approximate:
        support, mask, support_prior = indexed_support(unit, prior, candidates)
    else:
        support, mask, support_prior = candidate_support(unit, prior, candidates, block)
    solution = self_expression(unit, support, mask, support_prior, alpha=alpha, beta=beta)
    strength = solution.coefficients.abs()
    fell_back = bool(mask.any()) and not bool(strength.any())
    if fell_back:
        strength = torch.where(mask, _similarity_at(unit, support, block), 0.0).clamp_min(0.0)
    edge_index, weight = strongest_links(support, strength, neighbours)
    num_rows = unit.shape[0]
    density = edge_index.shape[1] / max(num_rows * (num_rows - 1), 1)
    adjacency = normalised_adjacency(edge_index, num_rows, weight.float())
    return Topology(adjacency, density, fell_back, approximate, solution.iterations)


def strongest_links(
    support: Int[Tensor, "core width"], strength: Float[Tensor, "core width"], k: int
) -> tuple[Int[Tensor, "2 links"], Float[Tensor, " links"]]:
    """Symmetric links from one-sided strengths |Z| (Eq. 14).

    W = |Z| + |Z|ᵀ; each row keeps its k largest entries, ties by id; a link that either end keeps stays.
    Weights are scaled as W_ij / min(m_i, m_j) with m the row maxima: every row's largest weight is then
    1, as with a division of each row by its own, and the matrix stays symmetric, which D^-½(W + I)D^-½
    assumes.

    Returns:
        Both directions of each link, and its weight in (0, 1].
    """
    num_rows = support.shape[0]
    row, column = (strength > 0).nonzero(as_tuple=True)
    other, value = support[row, column], strength[row, column]
    both = torch.cat([row, other]) * num_rows + torch.cat([other, row])
    key, place = torch.unique(both, sorted=True, return_inverse=True)
    weight = value.new_zeros(key.numel()).index_add_(0, place, torch.cat([value, value]))
    links = Ragged.from_pairs(key // num_rows, key % num_rows, num_rows)
    keep = segment_rank(weight, links.ptr) < k
    # W is symmetric, so that the kept entry and its mirror image have the same weight.
    mirror = torch.searchsorted(key, links.index * num_rows + links.row)
    keep = keep | keep[mirror]
    source, target, weight = links.row[keep], links.index[keep], weight[keep]
    largest = segment_max(weight, source, num_rows)
    weight = weight / torch.minimum(largest[source], largest[target])
    return torch.stack([source, target]), weight


def _similarity_at(
    unit: Float[Tensor, "core dim"], support: Int[Tensor, "core width"], block: int
) -> Float[Tensor, "core width"]:
    parts = [unit.new_empty(0, support.shape[1])]
    for begin in range(0, unit.shape[0], block):
        rows = slice(begin, begin + block)
        parts.append((unit[support[rows]] @ unit[rows].unsqueeze(2)).squeeze(2))
    return torch.cat(parts)
