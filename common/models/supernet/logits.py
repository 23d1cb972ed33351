"""What is searched: logits of the operations on every edge (α) and of the edges into every node (β)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.models.supernet.space import LAYERS, NODES

ARCHITECTURE = "architecture"
"""The first part of the names of these parameters in a supernet."""
SPREAD = 1e-3
"""Deviation of the initial logits, which tells equal nodes apart."""


def is_architecture(name: str) -> bool:
    """Whether a parameter of a supernet belongs to the architecture rather than to the weights."""
    return name.startswith(f"{ARCHITECTURE}.")


@dataclass(frozen=True)
class LayerWeights:
    """Probabilities in one layer of a cell.

    Args:
        operations: softmax(α), by target, source and operation.
        edges: softmax(β), by target and source.
    """

    operations: Float[Tensor, "targets sources operations"]
    edges: Float[Tensor, "targets sources"]


class CellLogits(nn.Module):
    """α and β of one cell, as parameters `LAYER_operations` and `LAYER_edges`."""

    def __init__(self) -> None:
        super().__init__()
        for layer, sources, operations in LAYERS:
            alpha, beta = torch.randn(NODES, sources, len(operations)), torch.randn(NODES, sources)
            self.register_parameter(f"{layer}_operations", nn.Parameter(SPREAD * alpha))
            self.register_parameter(f"{layer}_edges", nn.Parameter(SPREAD * beta))

    def weights(self) -> dict[str, LayerWeights]:
        """The probabilities by layer."""
        return layer_weights(dict(self.named_parameters()))


def layer_weights(logits: Mapping[str, Tensor]) -> dict[str, LayerWeights]:
    """The probabilities of one cell, by layer, from its logits by name."""
    return {
        layer: LayerWeights(
            logits[f"{layer}_operations"].softmax(2),
            logits[f"{layer}_edges"].softmax(1),
        )
        for layer, _, _ in LAYERS
    }


def cell_logits(parameters: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], ...]:
    """The logits of every cell, taken from the parameters of a supernet."""
    cells: dict[int, dict[str, Tensor]] = {}
    for name, value in parameters.items():
        if is_architecture(name):
            _, number, logit = name.split(".")
            cells.setdefault(int(number), {})[logit] = value
    return tuple(cells[number] for number in sorted(cells))
