"""How many core nodes each class gets (Chen et al., Neighbor-gated Condensation, Alg. 2)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def class_quotas(
    sizes: Int[Tensor, " classes"], budget: int, required: Bool[Tensor, " classes"]
) -> Int[Tensor, " classes"]:
    """A budget split over classes in proportion to their sizes, by largest remainder.

    The quotas sum to min(max(budget, number of required classes), Σ sizes). A required class whose share
    rounds to nothing gets one place, and the others share the rest in proportion. No quota exceeds its
    class: a share is at most the size, and what is left over goes to classes with a remainder. Integer
    arithmetic throughout; ties by class id.

    Args:
        sizes: candidates of each class, >= 0.
        budget: places wanted, >= 0.
        required: classes that must get at least one place; empty classes are ignored.
    """
    required = required & (sizes > 0)
    places = min(max(budget, int(required.sum())), int(sizes.sum()))
    fixed = torch.zeros_like(required)
    while True:
        free_sizes = torch.where(fixed, 0, sizes)
        quotas = fixed.to(sizes.dtype) + _largest_remainder(free_sizes, places - int(fixed.sum()))
        starved = required & (quotas == 0)
        if not bool(starved.any()):
            return quotas
        fixed = fixed | starved


def _largest_remainder(sizes: Int[Tensor, " classes"], places: int) -> Int[Tensor, " classes"]:
    total = int(sizes.sum())
    if total == 0 or places == 0:
        return torch.zeros_like(sizes)
    share = sizes * places // total
    remainder = sizes * places % total
    order = torch.sort(remainder, descending=True, stable=True).indices
    extra = torch.zeros_like(sizes)
    extra[order[: places - int(share.sum())]] = 1
    return share + extra
