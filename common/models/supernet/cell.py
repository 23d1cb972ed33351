"""A cell of the supernet: all operations on all edges, mixed by α and β (Liu et al., Fig. 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.supernet.activations import FUNCTIONS
from fedtag.common.models.supernet.aggregations import aggregate
from fedtag.common.models.supernet.filters import GATES
from fedtag.common.models.supernet.logits import LayerWeights
from fedtag.common.models.supernet.projection import SEARCH_GAIN, projected, projections
from fedtag.common.models.supernet.space import (
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
    first layer take H and X, those of the others every node of the layer before. The output is what `projected`
    makes of the terminal nodes.

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
        self.projection = projections(range(NODES), dim)
        self.register_buffer("gain", torch.full((1,), SEARCH_GAIN))

    def forward(
        self,
        h: Float[Tensor, "nodes dim"],
        x: Float[Tensor, "nodes dim"],
        adjacency: Adjacency,
        weights: Mapping[str, LayerWeights],
    ) -> Float[Tensor, "nodes dim"]:
        terminal = self.terminal(h, x, adjacency, weights)
        living = alive(weights)["activate"].sum().clamp(min=1)
        return projected(terminal, list(self.projection.children()), living, self.get_buffer("gain"))

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
        # Side by side, all nodes of the layer take one pass over the edges.
        wide = filtered.movedim(0, 1).flatten(1)
        aggregated = torch.stack(
            [aggregate(kind, wide, adjacency).unflatten(1, (NODES, -1)).movedim(1, 0) for kind in kinds],
            dim=1,
        )
        columns = [AGGREGATIONS.index(kind) for kind in kinds]
        hidden = _mixed(aggregated, weights["aggregate"], columns)
        activated = torch.stack([function(hidden) for function in FUNCTIONS.values()], dim=1)
        return _mixed(activated, weights["activate"])

    def _filtered(
        self, h: Float[Tensor, "nodes dim"], x: Float[Tensor, "nodes dim"], weights: LayerWeights
    ) -> Float[Tensor, "targets nodes dim"]:
        """Every edge scales what enters it by one factor, the mixture of its operations."""
        context = torch.cat([h, x], dim=1)
        shares = (weights.edges.unsqueeze(2) * weights.operations).view(NODES * INPUTS, -1, 1, 1)
        share = dict(zip(FILTERS, shares.unbind(1), strict=True))
        edges = [cast(nn.ModuleDict, gates) for gates in self.gates.children()]
        factor = share[IDENTITY].expand(-1, *h.shape)
        for kind, gate in GATES.items():
            factor = factor + share[kind] * gate.factors([gates[kind] for gates in edges], context)
        return torch.einsum("tsnd,snd->tnd", factor.unflatten(0, (NODES, INPUTS)), torch.stack([h, x]))


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
