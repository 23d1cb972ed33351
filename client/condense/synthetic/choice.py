"""What the condensers that copy have in common: places of each class, and the graph between the chosen nodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.common.graph import Graph
from fedtag.common.numerics.quotas import class_quotas
from fedtag.common.synthetic.condensed import Condensed


def places(graph: Graph, size: int) -> Int[Tensor, " classes"]:
    """Training nodes to choose of each class: by its share, at least one, at most all."""
    sizes = torch.bincount(graph.y[graph.train_mask], minlength=graph.num_classes)
    return class_quotas(sizes, size, sizes > 0)


def members(graph: Graph, label: int) -> Int[Tensor, " members"]:
    """The training nodes of a class, ascending."""
    return (graph.train_mask & (graph.y == label)).nonzero().squeeze(1)


def coreset(
    graph: Graph,
    size: int,
    choose: Callable[[Int[Tensor, " members"], int], Int[Tensor, " chosen"]],
) -> Condensed:
    """Training nodes with the links between them, chosen class by class.

    Args:
        graph: with at least one training node.
        size: nodes wanted.
        choose: gets the training nodes of a class and how many of them are wanted; returns their places among them.
    """
    chosen = []
    for label, quota in enumerate(places(graph, size).tolist()):
        nodes = members(graph, label)
        chosen.append(nodes[choose(nodes, quota)])
    return induced(graph, torch.cat(chosen).sort().values)


def induced(graph: Graph, nodes: Int[Tensor, " core"]) -> Condensed:
    """Training nodes with the links between them."""
    position = graph.y.new_full((graph.num_nodes,), -1)
    position[nodes] = torch.arange(nodes.numel(), device=nodes.device)
    edges = position[graph.edge_index]
    keep = (edges >= 0).all(0)
    return Condensed(graph.x[nodes], graph.y[nodes], edges[:, keep], graph.edge_weight[keep], copies=True)


def smoothed(graph: Graph) -> Float[Tensor, "nodes dim"]:
    """Features propagated over two hops, which is what a model of two layers tells nodes apart by."""
    adjacency = graph.adjacency()
    return adjacency.propagate(adjacency.propagate(graph.x))
