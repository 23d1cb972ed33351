"""A discrete architecture, and its form as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.models.supernet.space import LAYERS, NODES, ZERO

MOST_CELLS = 64


@dataclass(frozen=True)
class Edge:
    """One edge into a node.

    Args:
        source: position of the node that it comes from; 0 and 1 are H and X before the first layer.
        operation: other than zero.
        weight: 1, or 1/2 where two edges into the node were kept.
    """

    source: int
    operation: str
    weight: float = 1.0


Layer = Mapping[int, tuple[Edge, ...]]
"""The incoming edges of every node that is left, by its position."""


@dataclass(frozen=True)
class CellArchitecture:
    """What is left of a cell: only nodes on a path from its inputs to its output.

    Args:
        layers: by name, in the order of computation.
        fell_back: nothing was left, and identity-mean-ReLU stands in.
    """

    layers: Mapping[str, Layer]
    fell_back: bool = False


FALLBACK = CellArchitecture(
    {
        "filter": {0: (Edge(0, "identity"),)},
        "aggregate": {0: (Edge(0, "mean"),)},
        "activate": {0: (Edge(0, "relu"),)},
    },
    fell_back=True,
)


@dataclass(frozen=True)
class Architecture:
    """The cells of a network, first to last."""

    cells: tuple[CellArchitecture, ...]

    def as_json(self) -> dict[str, Any]:
        """Cells with an entry [target, source, operation, weight] for every edge of a layer."""
        return {
            "cells": [
                {
                    "fell_back": cell.fell_back,
                    **{
                        layer: [
                            [target, edge.source, edge.operation, edge.weight]
                            for target, edges in sorted(nodes.items())
                            for edge in edges
                        ]
                        for layer, nodes in cell.layers.items()
                    },
                }
                for cell in self.cells
            ]
        }

    @classmethod
    def from_json(cls, told: Any) -> Architecture:
        """The inverse of `as_json`, of an object that anybody may have written.

        Raises:
            WireError: it is something else, or an edge leads nowhere.
        """
        cells = told.get("cells") if isinstance(told, dict) else None
        if not isinstance(cells, list) or not 1 <= len(cells) <= MOST_CELLS:
            raise WireError(f"an architecture has a list of 1 to {MOST_CELLS} cells: install the same fedtag")
        return cls(tuple(_cell(cell) for cell in cells))


def _cell(told: Any) -> CellArchitecture:
    names = {"fell_back", *(layer for layer, _, _ in LAYERS)}
    if not isinstance(told, dict) or told.keys() != names or not isinstance(told["fell_back"], bool):
        raise WireError(f"a cell of an architecture has {', '.join(sorted(names))}: install the same fedtag")
    layers: dict[str, Layer] = {}
    sources: Sequence[int] = range(LAYERS[0][1])
    for layer, _, operations in LAYERS:
        if not isinstance(told[layer], list):
            raise WireError(f"{layer} of an architecture must be a list of edges")
        nodes: dict[int, tuple[Edge, ...]] = {}
        for entry in told[layer]:
            target, edge = _edge(entry, layer, operations, sources)
            nodes[target] = (*nodes.get(target, ()), edge)
        if not nodes or any(len(edges) > 2 for edges in nodes.values()):
            raise WireError(f"{layer} of an architecture must have nodes of one or two edges")
        layers[layer], sources = nodes, sorted(nodes)
    return CellArchitecture(layers, told["fell_back"])


def _edge(entry: Any, layer: str, operations: tuple[str, ...], sources: Sequence[int]) -> tuple[int, Edge]:
    valid = (
        isinstance(entry, list)
        and len(entry) == 4
        and type(entry[0]) is int
        and 0 <= entry[0] < NODES
        and type(entry[1]) is int
        and entry[1] in sources
        and entry[2] in operations
        and entry[2] != ZERO
        and entry[3] in (0.5, 1)
    )
    if not valid:
        raise WireError(
            f"{str(entry)[:80]} is no edge of layer {layer}: target, living source, operation, 1 or 0.5"
        )
    return entry[0], Edge(entry[1], entry[2], float(entry[3]))
