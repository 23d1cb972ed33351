"""A condensed graph: a few labelled nodes that stand for a whole graph in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from common.graph import Adjacency, Graph, normalised_adjacency


@dataclass(frozen=True, eq=False)
class Condensed:
    """A condensed graph; one without nodes stands for a graph without training nodes.

    Args:
        x: features X'.
        y: label Y' of each node, in [0, C).
        edge_index: links between different nodes; an undirected one stands in both directions.
        edge_weight: above 0.
        copies: whether rows of x are rows of the original graph, so that they must not leave the client.
    """

    x: Float[Tensor, "core dim"]
    y: Int[Tensor, " core"]
    edge_index: Int[Tensor, "2 edges"]
    edge_weight: Float[Tensor, " edges"]
    copies: bool

    @classmethod
    def without_links(cls, x: Float[Tensor, "core dim"], y: Int[Tensor, " core"], copies: bool) -> Condensed:
        """Nodes on their own."""
        return cls(x, y, y.new_zeros((2, 0)), x.new_zeros(0), copies)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], copies: bool) -> Condensed:
        """The inverse of `tensors`."""
        return cls(tensors["x"], tensors["y"], tensors["edge_index"], tensors["edge_weight"], copies)

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Everything but `copies`, by name, as it is kept on disk."""
        return {"x": self.x, "y": self.y, "edge_index": self.edge_index, "edge_weight": self.edge_weight}

    @cached_property
    def adjacency(self) -> Adjacency:
        """The normalised propagation matrix."""
        return normalised_adjacency(self.edge_index, self.num_nodes, self.edge_weight)

    def graph(self, num_classes: int) -> Graph:
        """The condensed graph as any other, all of its nodes being training nodes."""
        every = torch.ones(self.num_nodes, dtype=torch.bool, device=self.x.device)
        return Graph(
            self.x, self.edge_index, self.edge_weight, self.y, every, ~every, ~every, num_classes=num_classes
        )

    def to(self, device: torch.device | str) -> Condensed:
        moved = {name: value.to(device) for name, value in self.tensors.items()}
        return Condensed.from_tensors(moved, self.copies)
