"""Coarsening (after Huang et al., 2021): groups of nodes become supernodes, links add up between them.

Groups are made within classes rather than by a spectral bound, so that every supernode has a label.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.core.prototypes import cluster
from fedtag.client.condense.synthetic.choice import members, places, smoothed
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed

BLOCK = 4096


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Supernodes around k-means clusters of each class's training nodes; arguments as of `condense`.

    Every other node joins the group whose centre is nearest in features propagated over two hops. Where
    embeddings coincide there are fewer supernodes than wanted. A supernode of one node is a copy of it.
    """
    z = smoothed(graph)
    seeds = np.random.default_rng(int(torch.randint(2**62, (), generator=generator)))
    group = graph.y.new_full((graph.num_nodes,), -1)
    labels: list[int] = []
    for label, quota in enumerate(places(graph, size).tolist()):
        if quota:
            nodes = members(graph, label)
            _, assignment = cluster(z[nodes], quota, seeds)
            occupied, compact = torch.unique(assignment, return_inverse=True)
            group[nodes] = compact + len(labels)
            labels += [label] * occupied.numel()
    outside = (group < 0).nonzero().squeeze(1)
    known = group >= 0
    centres = means(z[known], group[known], len(labels))
    group[outside] = torch.cat([torch.cdist(rows, centres).argmin(1) for rows in z[outside].split(BLOCK)])
    return coarsened(graph, group, torch.tensor(labels, device=group.device))


def coarsened(graph: Graph, group: Int[Tensor, " nodes"], labels: Int[Tensor, " groups"]) -> Condensed:
    """X' = Pᵀ X / s and A'_ij = (Pᵀ A P)_ij / √(s_i s_j) for the partition P into groups of sizes s.

    Args:
        graph: to be coarsened.
        group: of each node, every group having at least one.
        labels: of each group.
    """
    count = labels.numel()
    sizes = torch.bincount(group, minlength=count)
    source, target = group[graph.edge_index]
    between = source != target
    pairs, position = torch.unique(source[between] * count + target[between], return_inverse=True)
    weight = graph.edge_weight.new_zeros(pairs.numel()).index_add(0, position, graph.edge_weight[between])
    edge_index = torch.stack([pairs // count, pairs % count])
    scale = (sizes[edge_index[0]] * sizes[edge_index[1]]).to(weight.dtype).sqrt()
    x = means(graph.x, group, count)
    return Condensed(x, labels, edge_index, weight / scale, copies=bool((sizes == 1).any()))


def means(
    x: Float[Tensor, "nodes dim"], group: Int[Tensor, " nodes"], count: int
) -> Float[Tensor, "groups dim"]:
    """The mean row of each group; every group has one."""
    sizes = torch.bincount(group, minlength=count).to(x.dtype)
    return x.new_zeros(count, x.shape[1]).index_add(0, group, x) / sizes.unsqueeze(1)
