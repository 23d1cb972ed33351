"""The graph on own and received condensed nodes (FedC4, Eq. 14-15).

min_Z α‖X̂ - ZX̂‖² + β‖Z‖₁ + Σ (1 - max(S_ij, 0))|Z_ij| with unit rows and an empty diagonal. Eq. 15 as printed has
neither the absolute value nor the diagonal: it would reward negative entries, and Z = I would be its optimum.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from fedtag.client.condense.core.topology import strongest_links
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.numerics.self_expression import self_expression


@torch.no_grad()
def rebuilt(
    x: Float[Tensor, "rows dim"],
    *,
    alpha: float,
    beta: float,
    candidates: int = 32,
    neighbours: int = 5,
    block: int = 1024,
) -> Adjacency:
    """Links between nodes that express one another; memory is O(rows · candidates + block · rows).

    Args:
        x: features of own and received nodes, at least one row.
        alpha: weight of the reconstruction, > 0.
        beta: weight of sparsity, >= 0; with β / 2α above the largest cosine of two rows, no link is left, and
            every node has its self-loop alone.
        candidates: the rows most alike by cosine, among which each row finds its neighbours.
        neighbours: links that each row keeps before the graph is made symmetric.
        block: rows compared with all others at once.
    """
    unit = normalize(x, dim=1)
    support, likeness = nearest(unit, candidates, block)
    mask = torch.ones_like(support, dtype=torch.bool)
    solution = self_expression(unit, support, mask, likeness.clamp_min(0.0), alpha=alpha, beta=beta)
    edge_index, weight = strongest_links(support, solution.coefficients.abs(), neighbours)
    return normalised_adjacency(edge_index, x.shape[0], weight.float())


def nearest(
    unit: Float[Tensor, "rows dim"], count: int, block: int = 1024
) -> tuple[Int[Tensor, "rows width"], Float[Tensor, "rows width"]]:
    """The other rows of largest cosine, for each row, and the cosines; fewer where there are not so many."""
    rows = unit.shape[0]
    width = max(0, min(count, rows - 1))
    supports = [torch.empty(0, width, dtype=torch.long, device=unit.device)]
    values = [unit.new_empty(0, width)]
    for begin in range(0, rows, block):
        end = min(begin + block, rows)
        own = torch.arange(begin, end, device=unit.device).unsqueeze(1)
        cosine = (unit[begin:end] @ unit.T).scatter(1, own, -torch.inf)
        value, support = cosine.topk(width, dim=1)
        supports.append(support)
        values.append(value)
    return torch.cat(supports), torch.cat(values)
