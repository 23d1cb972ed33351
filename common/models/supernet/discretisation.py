"""From logits to one architecture: path constraints, layer rules, and what is left on a path."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fedtag.common.models.supernet.architecture import FALLBACK, Architecture, CellArchitecture, Edge, Layer
from fedtag.common.models.supernet.logits import LayerWeights, cell_logits, layer_weights
from fedtag.common.models.supernet.space import IDENTITY, INPUTS, LAYERS, NODES, ZERO

LEAST_IDLE = 0.5
"""The weight above which the zero operation closes an edge, and above which identity stands in for an aggregation."""
BRANCHING = "aggregate"
"""The layer whose nodes may keep two edges."""


def discretised(parameters: Mapping[str, Tensor], gap: float) -> Architecture:
    """The architecture that the logits of a supernet stand for.

    With p the probabilities softmax(β) of the edges into a node, first of equals:

    - Nodes of layers 1 and 3 keep the edge of the largest p. Nodes of layer 2 keep it, and the second one if
      p_1 − p_2 < gap; each then has weight 1/2.
    - An edge has its strongest operation other than zero. If the weight of zero is above 0.5, it is closed.
    - In layer 2 identity is only taken if its weight is above 0.5, so that a cell looks one hop further unless the
      search is sure that it should not: on the few nodes of one client its own features nearly always fit best.
    - Closed edges, edges from nodes without an open edge, and nodes from which no path leads to the output go.
    - A cell in which nothing is left becomes identity-mean-ReLU from H.

    Args:
        parameters: of a supernet, by name; those of the architecture are looked at.
        gap: δ in [0, 1].
    """
    return Architecture(tuple(_cell(layer_weights(logits), gap) for logits in cell_logits(parameters)))


def _cell(weights: Mapping[str, LayerWeights], gap: float) -> CellArchitecture:
    layers: dict[str, Layer] = {}
    living = set(range(INPUTS))
    for layer, _, operations in LAYERS:
        kept = {
            target: tuple(
                edge
                for edge in _chosen(weights[layer], target, operations, gap if layer == BRANCHING else None)
                if edge.source in living
            )
            for target in range(NODES)
        }
        layers[layer] = {target: edges for target, edges in kept.items() if edges}
        living = set(layers[layer])
    needed = living
    for layer, _, _ in reversed(LAYERS):
        layers[layer] = {target: edges for target, edges in layers[layer].items() if target in needed}
        needed = {edge.source for edges in layers[layer].values() for edge in edges}
    return CellArchitecture(layers) if living else FALLBACK


def _chosen(weights: LayerWeights, target: int, operations: tuple[str, ...], gap: float | None) -> list[Edge]:
    """The edges into a node that are kept and open; a second one only where a gap is given."""
    probabilities = weights.edges[target].tolist()
    order = sorted(range(len(probabilities)), key=lambda source: -probabilities[source])
    second = gap is not None and probabilities[order[0]] - probabilities[order[1]] < gap
    kept = order[:2] if second else order[:1]
    edges = []
    for source in sorted(kept):
        share = dict(zip(operations, weights.operations[target, source].tolist(), strict=True))
        if share.pop(ZERO, 0.0) <= LEAST_IDLE:
            if gap is not None and share[IDENTITY] <= LEAST_IDLE:
                del share[IDENTITY]
            edges.append(Edge(source, max(share, key=lambda kind: share[kind]), 1 / len(kept)))
    return edges
