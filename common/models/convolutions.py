"""One layer of each family, all called as layer(x, adjacency).

The operators are PyTorch Geometric's. They share one adjacency, so that a backbone runs unchanged on the
original graph and on a condensed, weighted one.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TAGConv

from fedtag.common.graph import Adjacency


class GCN(nn.Module):
    """Graph convolution of Kipf and Welling (2017): Â X W + b, with the weights of the adjacency."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = GCNConv(inputs, outputs, normalize=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv(x, adjacency.edge_index, adjacency.weight)


class SAGE(nn.Module):
    """GraphSAGE with mean aggregation (Hamilton et al., 2017): W1 x_v + W2 mean of the neighbours.

    The neighbours' weights are ignored; the node itself is not among its neighbours.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = SAGEConv(inputs, outputs)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv(x, adjacency.edge_index_without_loops)


class GAT(nn.Module):
    """Graph attention (Velickovic et al., 2018), one head; attention replaces the adjacency's weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = GATConv(inputs, outputs, add_self_loops=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv(x, adjacency.edge_index)


class TAGCN(nn.Module):
    """Topology-adaptive graph convolution (Du et al., 2017) of two hops: Σ_k Â^k X W_k + b for k = 0, 1, 2.

    Every power of the adjacency has weights of its own. They can have opposite signs and so keep what
    differs between neighbours, as graphs need on which neighbours mostly have other labels.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = TAGConv(inputs, outputs, K=2, normalize=False)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.conv(x, adjacency.edge_index, adjacency.weight)


class Dense(nn.Module):
    """A linear layer that ignores the graph."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(
        self, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency
    ) -> Float[Tensor, "nodes outputs"]:
        return self.linear(x)


FAMILIES: dict[str, type[nn.Module]] = {
    "gcn": GCN,
    "sage": SAGE,
    "gat": GAT,
    "tagcn": TAGCN,
    "mlp": Dense,
}
