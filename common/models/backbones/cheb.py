"""Chebyshev graph convolution (Defferrard et al., 2016) on the weights of the adjacency."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.backbones.settings import ChebConfig
from fedtag.common.models.backbones.stack import Backbone
from fedtag.common.settings.sections import ModelConfig, Section

LEAST = 1e-6
"""Links of a node that weigh less, together, count as none: single precision of 1 + degree tells no less."""


class Cheb(nn.Module):
    """Chebyshev convolution (Defferrard et al., 2016): Σ_k T_k(L̃) X W_k + b for k < K, with L̃ = L - I.

    L is the normalised Laplacian of the links without self-loops, its largest eigenvalue taken as 2; T_0 = X,
    T_1 = L̃ X, T_k = 2 L̃ T_(k-1) - T_(k-2).

    Args:
        terms: K, at least 1.
        inputs, outputs: dimensions of a node.
    """

    def __init__(self, terms: int, inputs: int, outputs: int) -> None:
        super().__init__()
        maps = [nn.Linear(inputs, outputs, bias=False) for _ in range(terms)]
        for linear in maps:
            nn.init.xavier_uniform_(linear.weight)
        self.maps = nn.ModuleList(maps)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        shifted = shifted_laplacian(adjacency)
        term, before = x, None
        out = self.bias + self.maps[0](term)
        for linear in self.maps[1:]:
            passed = shifted.propagate(term)
            term, before = (passed if before is None else 2 * passed - before), term
            out = out + linear(term)
        return out


def shifted_laplacian(adjacency: Adjacency) -> Adjacency:
    """L̃ = -D^-1/2 A D^-1/2 from D'^-1/2 (A + I) D'^-1/2, with entries of 0 in the place of self-loops.

    Degrees follow from the self-loops, so that a part of a graph has the entries of the whole.
    """
    source, target = adjacency.edge_index
    degree = adjacency.loops.reciprocal() - 1
    scale = torch.where(degree > LEAST, ((degree + 1) / degree.clamp(min=LEAST)).sqrt(), 0.0)
    weight = -adjacency.weight * scale[source] * scale[target]
    return Adjacency(adjacency.edge_index, weight.where(source != target, 0.0), adjacency.num_nodes)


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Backbone:
    """A stack of these layers; arguments as of `BackboneSpec.build`."""
    assert isinstance(table, ChebConfig)
    layer = partial(Cheb, table.terms)
    return Backbone(layer, inputs, hidden, classes, model.layers, model.dropout, skip, reach=table.terms - 1)
