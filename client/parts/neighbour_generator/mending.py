"""A graph mended with generated neighbours, which lend features and edges only."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedtag.common.graph import Graph
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator, owners


@torch.no_grad()
def mended(
    graph: Graph,
    seen: Graph,
    model: NeighbourGenerator,
    most: int,
    directed: bool,
    generator: torch.Generator,
) -> Graph:
    """The graph with generated neighbours behind its own nodes, whose rows stay what they were.

    A generated neighbour has an edge to its node, as heavy as the mean edge of the graph, no label and no split.

    Args:
        graph: to mend.
        seen: the same nodes, with the edges that the generator may see.
        model: trained.
        most: neighbours a node.
        directed: whether edges are followed in one direction only: then from the neighbour to its node.
        generator: of the noise, on the graph's device.
    """
    z = model.encoded(seen.x, seen.adjacency())
    owner = owners(model.counts(z), most)
    features = model.features(z, owner, generator)
    new = graph.num_nodes + torch.arange(len(owner), device=owner.device)
    edges = torch.stack([new, owner])
    if not directed:
        edges = torch.cat([edges, edges.flip(0)], dim=1)
    weight = graph.edge_weight.mean() if graph.edge_weight.numel() else graph.edge_weight.new_ones(())

    def blank(mask: Tensor) -> Tensor:
        return torch.cat([mask, mask.new_zeros(len(owner))])

    return replace(
        graph,
        x=torch.cat([graph.x, features]),
        edge_index=torch.cat([graph.edge_index, edges], dim=1),
        edge_weight=torch.cat([graph.edge_weight, weight.expand(edges.shape[1])]),
        y=torch.cat([graph.y, graph.y.new_full((len(owner),), -1)]),
        train_mask=blank(graph.train_mask),
        val_mask=blank(graph.val_mask),
        test_mask=blank(graph.test_mask),
    )
