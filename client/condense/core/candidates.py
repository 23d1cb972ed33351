"""Which core rows may be linked: the nearest by features and by evidence (DANCE, Eq. 12)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.condense.core.nearest import nearest
from fedtag.client.condense.core.prior import EvidencePrior, top_columns


def candidate_support(
    unit: Float[Tensor, "core dim"], prior: EvidencePrior, q: int, block: int = 256
) -> tuple[Int[Tensor, "core width"], Bool[Tensor, "core width"], Float[Tensor, "core width"]]:
    """C(i) = TopQ(x̂_i·x̂_j) ∪ TopQ(S_ij), without i (Eq. 12), padded, with its mask and S on it.

    Rows with S_ij = 0 have no textual support, and are no candidates by the prior.
    """
    num_rows = unit.shape[0]
    count = max(0, min(q, num_rows - 1))
    # An empty part stands for a core without rows.
    supports = [torch.empty(0, 2 * count, dtype=torch.long, device=unit.device)]
    masks, values = [supports[0].bool()], [supports[0].to(unit.dtype)]
    for begin in range(0, num_rows, block):
        end = min(begin + block, num_rows)
        own = torch.arange(begin, end, device=unit.device).unsqueeze(1)
        closeness = prior.rows(begin, end)
        near = top_columns((unit[begin:end] @ unit.T).scatter(1, own, -torch.inf), count)
        linked = top_columns(closeness.scatter(1, own, -torch.inf), count)
        linked = torch.where(closeness.gather(1, linked) > 0, linked, num_rows)
        support, mask = _united(near, linked, num_rows)
        supports.append(support)
        masks.append(mask)
        values.append(torch.where(mask, closeness.gather(1, support), 0.0).to(unit.dtype))
    return torch.cat(supports), torch.cat(masks), torch.cat(values)


def indexed_support(
    unit: Float[Tensor, "core dim"], prior: EvidencePrior, q: int
) -> tuple[Int[Tensor, "core width"], Bool[Tensor, "core width"], Float[Tensor, "core width"]]:
    """`candidate_support` by an index over rows and one over chunks, in place of all pairs.

    Some of the nearest may be missing, and farther ones stand for them; S on the candidates is exact.
    """
    num_rows = unit.shape[0]
    count = max(0, min(q, num_rows - 1))
    if count == 0:
        return candidate_support(unit, prior, q)
    support, mask = _united(nearest(unit, count)[0], prior.strongest(count), num_rows)
    return support, mask, torch.where(mask, prior.at(support), 0.0).to(unit.dtype)


def _united(
    near: Int[Tensor, "rows count"], linked: Int[Tensor, "rows count"], num_rows: int
) -> tuple[Int[Tensor, "rows width"], Bool[Tensor, "rows width"]]:
    """Both sets as one, ascending, and which entries count; `num_rows` in either stands for no candidate."""
    # Sorting brings doubles side by side, and what stands for none to the end.
    support = torch.cat([near, linked], dim=1).sort(dim=1).values
    mask = support < num_rows
    mask[:, 1:] &= support[:, 1:] != support[:, :-1]
    return torch.where(mask, support, 0), mask
