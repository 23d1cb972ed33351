"""ÂX where some neighbours are at other institutions.

x̃_v = Σ_u x_u a_vu / √(d_v d_u) with u = v included and degrees that count cross edges. An institution divides the rows
of its own nodes by their √d_u before it adds them up for a neighbour elsewhere, and the neighbour's institution divides
what it gets by √d_v, so that no degree is told.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Float64, Int
from torch import Tensor

from fedtag.common.graph import Adjacency, Graph, normalised_adjacency


@dataclass(frozen=True, eq=False)
class Propagation:
    """Â on an institution's own nodes.

    Args:
        adjacency: the entries between own nodes, self-loops included.
        scale: 1 / √d of every node.
    """

    adjacency: Adjacency
    scale: Float[Tensor, " nodes"]

    @classmethod
    def of(cls, graph: Graph, source: Int[Tensor, " cross"], weight: Float[Tensor, " cross"]) -> Propagation:
        """Of an undirected graph.

        Args:
            graph: an undirected edge stands in both directions.
            source: own node of each cross edge.
            weight: of each cross edge.
        """
        beyond = weight.new_zeros(graph.num_nodes).index_add_(0, source, weight)
        adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, graph.edge_weight, beyond)
        loops = adjacency.edge_index[0] == adjacency.edge_index[1]
        # The entry of a self-loop, of which every node has one, is 1 / d.
        return cls(adjacency, adjacency.weight[loops].sqrt())

    def local(self, x: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes dim"]:
        """The part of ÂX that comes from own nodes."""
        return self.adjacency.propagate(x)

    def given(
        self,
        x: Float[Tensor, "nodes dim"],
        source: Int[Tensor, " cross"],
        weight: Float[Tensor, " cross"],
        place: Int[Tensor, " cross"],
        places: int,
    ) -> Float64[Tensor, "places dim"]:
        """Σ_u x_u a_vu / √d_u over own nodes u, for nodes v elsewhere.

        Args:
            x: rows of own nodes.
            source: own node u of each cross edge.
            weight: a_vu.
            place: of v among the nodes that get a sum.
            places: how many these are.
        """
        rows = x[source].double() * (self.scale[source] * weight).double()[:, None]
        return rows.new_zeros(places, x.shape[1]).index_add_(0, place, rows)

    def completed(
        self,
        local: Float[Tensor, "nodes dim"],
        rows: Int[Tensor, " places"],
        sums: Float64[Tensor, "places dim"],
    ) -> Float[Tensor, "nodes dim"]:
        """ÂX from its local part and from the sums over neighbours elsewhere.

        Args:
            local: as of `local`.
            rows: own nodes that got a sum, each once.
            sums: over all institutions, as of `given`.
        """
        return local.index_add(0, rows, (self.scale[rows].double()[:, None] * sums).to(local.dtype))
