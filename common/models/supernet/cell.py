"""A cell of the supernet: all operations on all edges, mixed by α and β (DA-DFGAS, Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from common.graph import Adjacency
from common.models.supernet.activations import FUNCTIONS
from common.models.supernet.aggregations import aggregate
from common.models.supernet.filters import GATES
from common.models.supernet.logits import LayerWeights
from common.models.supernet.space import (
    AGGREGATIONS,
    FILTERS,
    IDENTITY,
    INPUTS,
    LAYERS,
    NODES,
    ZERO,
)


def edge_name(target: int, source: int) -> str:
    """The name of the gates on one edge of the first layer."""
    return f"{target}-{source}"


class Cell(nn.Module):
    """Three layers of three nodes: filters, aggregations, activations.

    A node's value is Σ_e softmax(β)_e Σ_o softmax(α_e)_o op_o(x_e) over its incoming edges e. The nodes of the
    first layer take H and X, those of the others every node of the layer before. The output is
    H + norm(Σ_k W_k t_k) over the terminal nodes t_k, that is their concatenation under one projection. Residual and
    norm are ours. The norm is over the features of each node (layer norm): a client whose nodes are mostly of one
    class would lose with the mean over its nodes what tells the class.

    Args:
        dim: width of H, X, all nodes and the output.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gates = nn.ModuleDict(
            {
                edge_name(target, source): nn.ModuleDict({kind: gate(dim) for kind, gate in GATES.items()})
                for target in range(NODES)
                for source in range(INPUTS)
            }
        )
        self.projection = nn.ModuleDict({str(k): nn.Linear(dim, dim, bias=False) for k in range(NODES)})
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        h: Float[Tensor, "nodes dim"],
        x: Float[Tensor, "nodes dim"],
        adjacency: Adjacency,
        weights: Mapping[str, LayerWeights],
    ) -> Float[Tensor, "nodes dim"]:
        terminal = self.terminal(h, x, adjacency, weights)
        projected = torch.stack([self.projection[str(k)](terminal[k]) for k in range(NODES)])
        return h + self.norm(projected.sum(0))

    def terminal(
        self,
        h: Float[Tensor, "nodes dim"],
        x: Float[Tensor, "nodes dim"],
        adjacency: Adjacency,
        weights: Mapping[str, LayerWeights],
    ) -> Float[Tensor, "terminal nodes dim"]:
        """The values of the nodes of the last layer."""
        filtered = self._filtered(h, x, weights["filter"])
        kinds = [kind for kind in AGGREGATIONS if kind != ZERO]
        aggregated = torch.stack(
            [torch.stack([aggregate(kind, value, adjacency) for kind in kinds]) for value in filtered]
        )
        columns = [AGGREGATIONS.index(kind) for kind in kinds]
        hidden = _mixed(aggregated, weights["aggregate"], columns)
        activated = torch.stack([function(hidden) for function in FUNCTIONS.values()], dim=1)
        # Only the sigmoid makes something of nothing; an edge from a dead node carries nothing all the same.
        living = alive(weights)["aggregate"].to(activated.dtype)
        return _mixed(activated * living.view(-1, 1, 1, 1), weights["activate"])

    def _filtered(
        self, h: Float[Tensor, "nodes dim"], x: Float[Tensor, "nodes dim"], weights: LayerWeights
    ) -> Float[Tensor, "targets nodes dim"]:
        context = torch.cat([h, x], dim=1)
        coefficients = weights.edges.unsqueeze(2) * weights.operations
        values = []
        for target in range(NODES):
            value = torch.zeros_like(h)
            for source, entering in enumerate((h, x)):
                factor = dict(zip(FILTERS, coefficients[target, source].unbind(), strict=True))
                value = value + factor[IDENTITY] * entering
                for kind, gate in self.gates[edge_name(target, source)].named_children():
                    value = value + factor[kind] * gate(entering, context)
            values.append(value)
        return torch.stack(values)


def _mixed(
    values: Float[Tensor, "sources operations nodes dim"],
    weights: LayerWeights,
    columns: list[int] | None = None,
) -> Float[Tensor, "targets nodes dim"]:
    """Σ_e β_e Σ_o α_eo values[e, o] for every target; `columns` are the operations that values were computed for."""
    operations = weights.operations if columns is None else weights.operations[:, :, columns]
    return torch.einsum("tso,sond->tnd", weights.edges.unsqueeze(2) * operations, values)


def alive(weights: Mapping[str, LayerWeights]) -> dict[str, Bool[Tensor, " targets"]]:
    """The nodes of each layer that something can reach: an edge and an operation of positive weight, other than zero,
    from a node that is alive itself. With finite logits all nodes are.
    """
    found: dict[str, Tensor] = {}
    sources = torch.ones(INPUTS, dtype=torch.bool, device=weights["filter"].edges.device)
    for layer, _, operations in LAYERS:
        kept = [number for number, kind in enumerate(operations) if kind != ZERO]
        open_edges = (weights[layer].edges > 0) & (weights[layer].operations[:, :, kept] > 0).any(2)
        sources = (open_edges & sources).any(1)
        found[layer] = sources
    return found
