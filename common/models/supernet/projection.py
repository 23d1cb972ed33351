"""How the terminal nodes of a cell become its output."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

TRAINED = 0.1
"""β: how much of the projection is trained; the rest is the identity."""
SEARCH_GAIN = 2.0
"""g in the search, where a mixture of all operations at equal shares leaves about a sixth of what enters a cell. Two
cells then still give enough to learn from; to make up for all of it would make the local steps so long that clients
part."""


def projections(nodes: Sequence[int], dim: int) -> nn.ModuleDict:
    """The trained block W_k of each terminal node k, by its position."""
    return nn.ModuleDict({str(node): nn.Linear(dim, dim, bias=False) for node in nodes})


def projected(
    terminal: Float[Tensor, "terminal nodes dim"],
    blocks: Sequence[nn.Module],
    living: Tensor | int,
    gain: Float[Tensor, 1],
) -> Float[Tensor, "nodes dim"]:
    """g Σ_k ((1 − β) t_k + β W_k t_k) / K over the K living terminal nodes: their concatenation, projected.

    A dead one is 0 and counts for nothing. The gain g is a constant of the weights at hand, `SEARCH_GAIN` in the
    search, 1 afterwards: without it deep cells would give too little to learn from.

    The projection stays near the mean, by the identity mapping of GCNII (Chen et al., 2020): a free matrix in every
    cell overfits the few labels that a client has. There is no norm: it would make steps of the weights before it
    longer the smaller these are, each client would leave in a direction of its own, and the mean of their weights
    swing from round to round.

    Args:
        terminal: the values t_k of the terminal nodes.
        blocks: W_k, in the same order.
        living: K, at least 1 unless all of them are dead.
        gain: g.
    """
    weights = torch.stack([block.get_parameter("weight") for block in blocks])
    mixed = torch.einsum("knd,ked->ne", terminal, weights)
    total = (1 - TRAINED) * terminal.sum(0) + TRAINED * mixed
    return total * (gain / living)
