"""How far the gradients of a condensed graph are from those of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Distance = Literal["cosine", "squared"]

LEAST_NORM = 1e-6


def gradient_distance(
    real: Sequence[Float[Tensor, "classes ..."]],
    condensed: Sequence[Float[Tensor, "classes ..."]],
    distance: Distance,
    shares: Float[Tensor, " classes"],
) -> Float[Tensor, ""]:
    """Σ_c share_c Σ_W D(G_c, G'_c) over the classes and the weights of a model (Jin et al., 2022, Eq. 4 and 7).

    - `cosine`: Σ over the columns of a matrix, one a unit of its layer's output, of 1 − cos; biases, which have
      no columns, do not count.
    - `squared`: Σ (G − G')² over matrices and biases.

    Args:
        real: derivatives by each of the weights, of every class.
        condensed: the same on the condensed graph; differentiable.
        distance: one of the above.
        shares: weight of each class, at least 0; 0 for those that are not matched.
    """
    total = shares.new_zeros(())
    for wanted, found in zip(real, condensed, strict=True):
        if distance == "squared":
            apart = ((wanted - found) ** 2).flatten(1).sum(1)
        elif wanted.dim() < 3:
            continue
        else:
            norms = torch.linalg.vector_norm(wanted, dim=1) * torch.linalg.vector_norm(found, dim=1)
            apart = (1 - (wanted * found).sum(1) / (norms + LEAST_NORM**2)).sum(1)
        total = total + (shares * apart).sum()
    return total
