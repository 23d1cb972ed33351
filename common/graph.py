"""The graph on which models compute: tensors only, no texts and no identifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag
from torch.utils.weak import WeakTensorKeyDictionary


@dataclass(frozen=True)
class Adjacency:
    """A normalised propagation matrix, D^-1/2 (A + I) D^-1/2, as a list of entries.

    `edge_index` has the source in row 0 and the target in row 1, self-loops included; `weight` is the
    normalised entry. Both are sorted by target, then source.
    """

    edge_index: Int[Tensor, "2 entries"]
    weight: Float[Tensor, " entries"]
    num_nodes: int

    def to(self, device: torch.device | str) -> Adjacency:
        return Adjacency(self.edge_index.to(device), self.weight.to(device), self.num_nodes)

    @cached_property
    def transposed(self) -> Adjacency:
        """The same entries with source and target exchanged."""
        source, target = self.edge_index
        order = torch.argsort(source * self.num_nodes + target)
        return Adjacency(torch.stack([target[order], source[order]]), self.weight[order], self.num_nodes)

    @cached_property
    def links(self) -> Adjacency:
        """The entries between different nodes, each of weight 1: a product with them sums over neighbours."""
        edges = self.edge_index_without_loops
        return Adjacency(edges, self.weight.new_ones(edges.shape[1]), self.num_nodes)

    @cached_property
    def neighbour_mean(self) -> Adjacency:
        """The same, with weights that sum to 1 at each node that has neighbours."""
        edges = self.edge_index_without_loops
        width = self.links.pointers.diff().to(self.weight.dtype)
        return Adjacency(edges, width.reciprocal()[edges[1]], self.num_nodes)

    @cached_property
    def edge_index_without_loops(self) -> Int[Tensor, "2 edges"]:
        """The entries between different nodes."""
        return self.edge_index[:, self.edge_index[0] != self.edge_index[1]]

    @cached_property
    def pointers(self) -> Int[Tensor, " pointers"]:
        """Where the entries of each target begin, and after the last one their number."""
        places = torch.arange(self.num_nodes + 1, device=self.weight.device)
        return torch.searchsorted(self.edge_index[1].contiguous(), places)

    @property
    def loops(self) -> Float[Tensor, " nodes"]:
        """The entry of each node with itself, 1 / its degree with the self-loop, also in a part of a graph."""
        source, target = self.edge_index
        own = self.weight.where(source == target, 0.0)
        return _row_sums(own, self.pointers)

    @cached_property
    def _powers(self) -> WeakTensorKeyDictionary:
        """By x: hops and version of x, and the product."""
        return WeakTensorKeyDictionary()

    def power(self, x: Float[Tensor, "nodes dim"], hops: int) -> Float[Tensor, "nodes dim"]:
        """So many products with the propagation matrix, computed once for features that nothing learns or changes.

        What was computed is kept as long as both the matrix and x are there.
        """
        learned = x.requires_grad or self.weight.requires_grad
        of = None if learned or x.is_inference() else (hops, x._version)
        kept: tuple[tuple[int, int] | None, Tensor] | None = self._powers.get(x)
        if of is not None and kept is not None and kept[0] == of:
            return kept[1]
        found = x
        for _ in range(hops):
            found = self.propagate(found)
        if of is not None:
            self._powers[x] = (of, found)
        return found

    def propagate(self, x: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes dim"]:
        """One product with the propagation matrix."""
        return self.summed(x) if self.weight.requires_grad else _Product.apply(x, self)

    def summed(self, x: Float[Tensor, "nodes dim"]) -> Float[Tensor, "nodes dim"]:
        """The same, of which autograd knows every entry."""
        # Entries are sorted by target, so that each node sums a bag of rows, and no row is gathered for an entry.
        return embedding_bag(
            self.edge_index[0], x, self.pointers[:-1], mode="sum", per_sample_weights=self.weight.to(x.dtype)
        )

    def reduce(self, x: Float[Tensor, "nodes dim"], mode: str) -> Float[Tensor, "nodes dim"]:
        """The `mean` or `max` by feature over the sources of each node's entries, all alike; 0 without an entry."""
        return embedding_bag(self.edge_index[0], x, self.pointers[:-1], mode=mode)


class _Product(torch.autograd.Function):
    """A product with fixed entries, whose gradient is a product with the transposed ones.

    Autograd's own sorts the entries in each step; here they are sorted once, and each node sums in one order, so that a
    device gives the same bits again.
    """

    @staticmethod
    def forward(x: Tensor, adjacency: Adjacency) -> Tensor:
        return adjacency.summed(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Adjacency], output: Tensor) -> None:
        ctx.adjacency = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.adjacency.transposed.propagate(gradients[0]), None

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, None], x: Tensor, adjacency: Adjacency) -> tuple[Tensor, int]:
        """Of many tables at once: their columns stand beside each other."""
        assert dims[0] is not None
        beside = x.movedim(dims[0], 1)
        return adjacency.propagate(beside.flatten(1)).view(beside.shape), 1


def _row_sums(
    values: Float[Tensor, " entries"], pointers: Int[Tensor, " pointers"]
) -> Float[Tensor, " nodes"]:
    return torch.segment_reduce(values, "sum", offsets=pointers, initial=0.0, unsafe=True)


def normalised_adjacency(
    edge_index: Int[Tensor, "2 edges"],
    num_nodes: int,
    edge_weight: Float[Tensor, " edges"] | None = None,
    beyond: Float[Tensor, " nodes"] | None = None,
) -> Adjacency:
    """The symmetric normalisation of Kipf and Welling (2017) with self-loops of weight 1.

    Args:
        edge_index: edges without self-loops; an undirected edge stands in both directions.
        num_nodes: n >= 1.
        edge_weight: non-negative; 1 where absent.
        beyond: weights of each node's edges to nodes that are not there, which count for its degree alone.
    """
    device = edge_index.device
    weight = edge_weight if edge_weight is not None else torch.ones(edge_index.shape[1], device=device)
    loops = torch.arange(num_nodes, device=device)
    source = torch.cat([edge_index[0], loops])
    target = torch.cat([edge_index[1], loops])
    weight = torch.cat([weight, torch.ones(num_nodes, device=device)])
    order = torch.argsort(target * num_nodes + source, stable=True)
    made = Adjacency(torch.stack([source[order], target[order]]), weight[order], num_nodes)
    # Summed in the order of entries, so that a device finds the same again.
    degree = _row_sums(made.weight, made.pointers)
    degree = degree if beyond is None else degree + beyond
    scale = degree.rsqrt()
    source, target = made.edge_index
    return replace(made, weight=scale[source] * made.weight * scale[target])


@dataclass(frozen=True)
class Graph:
    """A client's attributed graph.

    `x` are the node features that a plain backbone reads. `edge_index` carries no self-loops; an
    undirected edge stands in both directions. `y` is -1 where a node has no label. The masks are
    disjoint and only cover labelled nodes.
    """

    x: Float[Tensor, "nodes dim"]
    edge_index: Int[Tensor, "2 edges"]
    edge_weight: Float[Tensor, " edges"]
    y: Int[Tensor, " nodes"]
    train_mask: Bool[Tensor, " nodes"]
    val_mask: Bool[Tensor, " nodes"]
    test_mask: Bool[Tensor, " nodes"]
    num_classes: int

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    def adjacency(self) -> Adjacency:
        """The normalised propagation matrix of this graph."""
        return normalised_adjacency(self.edge_index, self.num_nodes, self.edge_weight)

    def with_features(self, x: Float[Tensor, "nodes dim"]) -> Graph:
        """The same graph with other node features."""
        return replace(self, x=x)

    def without_edges_of(self, hidden: Bool[Tensor, " nodes"]) -> Graph:
        """The same nodes, with every edge that touches a hidden node removed."""
        source, target = self.edge_index
        keep = ~(hidden[source] | hidden[target])
        return replace(self, edge_index=self.edge_index[:, keep], edge_weight=self.edge_weight[keep])

    def to(self, device: torch.device | str) -> Graph:
        return replace(
            self,
            x=self.x.to(device),
            edge_index=self.edge_index.to(device),
            edge_weight=self.edge_weight.to(device),
            y=self.y.to(device),
            train_mask=self.train_mask.to(device),
            val_mask=self.val_mask.to(device),
            test_mask=self.test_mask.to(device),
        )
