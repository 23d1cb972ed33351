"""Convolutions over links that count alike."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency


class Unweighted(nn.Module):
    """A convolution of PyTorch Geometric's that reads links and not their weights.

    The node itself is not among its neighbours.

    Args:
        conv: called as conv(x, edge_index).
    """

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        found: Tensor = self.conv(x, adjacency.edge_index_without_loops)
        return found
