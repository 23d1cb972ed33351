"""Feature filters: gates that scale what enters a cell (Liu et al., Eq. 1-4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from fedtag.common.models.supernet.space import FEATURE_GATE, NODE_GATE


class NodeGate(nn.Module):
    """F_s: Q ⊙ x with one factor a node, Q = σ(W_Q [H ‖ X] + b), in (0, 1).

    Args:
        dim: of x, H and X.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Linear(2 * dim, 1)

    def forward(
        self, x: Float[Tensor, "nodes dim"], context: Float[Tensor, "nodes twice"]
    ) -> Float[Tensor, "nodes dim"]:
        return self.factors([self], context)[0] * x

    @staticmethod
    def factors(
        gates: Sequence[nn.Module], context: Float[Tensor, "nodes twice"]
    ) -> Float[Tensor, "gates nodes 1"]:
        """Q of several gates at once."""
        weight, bias = _stacked(gates, "query")
        return torch.sigmoid(functional.linear(context, weight.flatten(0, 1), bias.flatten())).T.unsqueeze(2)


class FeatureGate(nn.Module):
    """F_d: Z ⊙ x with one factor a node and feature, Z = σ(W_Z relu(W [H ‖ X] + b) + c), in (0, 1).

    Eq. 4 as printed feeds the scalar of W_Q into W_Z, which does not fit the dimensions that the paper gives;
    here the inner map has the width of the features.

    Args:
        dim: of x, H and X.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * dim, dim)
        self.outer = nn.Linear(dim, dim)

    def forward(
        self, x: Float[Tensor, "nodes dim"], context: Float[Tensor, "nodes twice"]
    ) -> Float[Tensor, "nodes dim"]:
        return self.factors([self], context)[0] * x

    @staticmethod
    def factors(
        gates: Sequence[nn.Module], context: Float[Tensor, "nodes twice"]
    ) -> Float[Tensor, "gates nodes dim"]:
        """Z of several gates at once."""
        weight, bias = _stacked(gates, "inner")
        inner = functional.relu(functional.linear(context, weight.flatten(0, 1), bias.flatten()))
        hidden = inner.unflatten(1, (len(gates), -1)).movedim(1, 0)
        weight, bias = _stacked(gates, "outer")
        return torch.sigmoid(torch.baddbmm(bias.unsqueeze(1), hidden, weight.mT))


def _stacked(gates: Sequence[nn.Module], name: str) -> tuple[Tensor, Tensor]:
    """Weights and biases of one linear map of each gate."""
    layers = [gate.get_submodule(name) for gate in gates]
    return (
        torch.stack([layer.get_parameter("weight") for layer in layers]),
        torch.stack([layer.get_parameter("bias") for layer in layers]),
    )


GATES: dict[str, type[NodeGate] | type[FeatureGate]] = {NODE_GATE: NodeGate, FEATURE_GATE: FeatureGate}
