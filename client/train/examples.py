"""What a client trains on: its graph, a condensed one, or one that a method puts together."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from common.graph import Adjacency, Graph
from common.synthetic.condensed import Condensed


@dataclass(frozen=True, eq=False)
class Examples:
    """Nodes with features and links, some of which have a label to learn from.

    Args:
        x: features.
        adjacency: propagation between the nodes.
        y: labels; those of other nodes than the chosen ones are not read.
        mask: the nodes whose labels are learned; none is allowed.
    """

    x: Float[Tensor, "nodes dim"]
    adjacency: Adjacency
    y: Int[Tensor, " nodes"]
    mask: Bool[Tensor, " nodes"]

    @classmethod
    def of_graph(cls, graph: Graph, adjacency: Adjacency) -> Examples:
        """The training nodes of a graph."""
        return cls(graph.x, adjacency, graph.y, graph.train_mask)

    @classmethod
    def of_condensed(cls, condensed: Condensed) -> Examples:
        """All nodes of a condensed graph."""
        every = condensed.y >= 0
        return cls(condensed.x, condensed.adjacency, condensed.y, every)
