"""Whom a membership audit is about: members, non-members, and nodes that an attacker may know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.data.shadow_nodes import outside_splits, shadow_half
from fedtag.common.errors import DataError
from fedtag.common.graph import Graph


@dataclass(frozen=True, eq=False)
class Population:
    """All nodes of the audited sites.

    Args:
        graph: the sites' graphs side by side, without links from one to another.
        shadow: nodes outside every split that the attacker knows with their labels.
        spare: the other nodes outside every split.
    """

    graph: Graph
    shadow: Bool[Tensor, " nodes"]
    spare: Bool[Tensor, " nodes"]

    @property
    def members(self) -> Bool[Tensor, " nodes"]:
        """The training nodes."""
        return self.graph.train_mask

    @property
    def non_members(self) -> Bool[Tensor, " nodes"]:
        """All test nodes. Validation nodes are neither: they chose the model."""
        return self.graph.test_mask

    @property
    def labels(self) -> Int[np.ndarray, " nodes"]:
        """The label of every node, -1 without one."""
        return self.graph.y.cpu().numpy()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two groups of nodes, the second weighed so that both have the same shares of classes.

    Args:
        members: positions, ascending.
        others: positions of the non-members whose weight is above 0, ascending.
        weights: of these, with the mean 1: share of the class in `members` over its share in `others`.
        left_out: members of classes that no non-member has, which cannot be compared.
    """

    members: Int[np.ndarray, " members"]
    others: Int[np.ndarray, " others"]
    weights: Float[np.ndarray, " others"]
    left_out: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare."""
        return not len(self.members) or not len(self.others)


def population(graphs: Sequence[Graph], names: Sequence[str], seed: int) -> Population:
    """The population of some sites.

    Args:
        graphs: of each site, with features of one width and the same classes.
        names: of the sites.
        seed: of the run, by which each site's shadow nodes are drawn.

    Raises:
        DataError: widths or numbers of classes differ.
    """
    shapes = sorted({(graph.x.shape[1], graph.num_classes) for graph in graphs})
    if len(shapes) != 1:
        raise DataError(
            f"the folders differ in (numbers a node, classes): {', '.join(map(str, shapes))}; "
            "audit folders of one federation"
        )
    shadows = [
        shadow_half(outside_splits(graph), seed, name) for graph, name in zip(graphs, names, strict=True)
    ]
    whole, shadow = side_by_side(graphs), torch.cat(shadows)
    return Population(whole, shadow, outside_splits(whole) & ~shadow)


def side_by_side(graphs: Sequence[Graph]) -> Graph:
    """One graph with the nodes and links of all, in their order."""
    offsets = np.cumsum([0, *(graph.num_nodes for graph in graphs)]).tolist()
    return Graph(
        x=torch.cat([graph.x for graph in graphs]),
        edge_index=torch.cat(
            [graph.edge_index + offset for graph, offset in zip(graphs, offsets, strict=False)], dim=1
        ),
        edge_weight=torch.cat([graph.edge_weight for graph in graphs]),
        y=torch.cat([graph.y for graph in graphs]),
        train_mask=torch.cat([graph.train_mask for graph in graphs]),
        val_mask=torch.cat([graph.val_mask for graph in graphs]),
        test_mask=torch.cat([graph.test_mask for graph in graphs]),
        num_classes=graphs[0].num_classes,
    )


def induced(graph: Graph, nodes: Bool[Tensor, " nodes"]) -> Graph:
    """The subgraph of some nodes, in their order, with the links between them."""
    source, target = graph.edge_index
    kept = nodes[source] & nodes[target]
    position = torch.cumsum(nodes, 0) - 1
    return replace(
        graph,
        x=graph.x[nodes],
        edge_index=position[graph.edge_index[:, kept]],
        edge_weight=graph.edge_weight[kept],
        y=graph.y[nodes],
        train_mask=graph.train_mask[nodes],
        val_mask=graph.val_mask[nodes],
        test_mask=graph.test_mask[nodes],
    )


def comparison(
    labels: Int[np.ndarray, " nodes"],
    members: Bool[np.ndarray, " nodes"],
    others: Bool[np.ndarray, " nodes"],
) -> Comparison:
    """Members against non-members at the members' classes; nodes without a label are in neither group."""
    classes = int(labels.max(initial=0)) + 1
    of_members = np.bincount(labels[members & (labels >= 0)], minlength=classes)
    of_others = np.bincount(labels[others & (labels >= 0)], minlength=classes)
    common = (of_members > 0) & (of_others > 0)
    chosen = np.flatnonzero(members & (labels >= 0) & common[labels])
    against = np.flatnonzero(others & (labels >= 0) & common[labels])
    share = np.where(common, of_members, 0) / np.maximum(of_others, 1)
    weights = share[labels[against]]
    if len(against):
        weights = weights / weights.mean()
    return Comparison(chosen, against, weights, int(of_members[~common].sum()))


def drawn_per_class(
    labels: Int[np.ndarray, " nodes"],
    eligible: Bool[np.ndarray, " nodes"],
    counts: Int[np.ndarray, " classes"],
    generator: np.random.Generator,
) -> Bool[np.ndarray, " nodes"]:
    """So many eligible nodes of each class at random, or all where there are no more."""
    order = generator.permutation(np.flatnonzero(eligible & (labels >= 0)))
    order = order[np.argsort(labels[order], kind="stable")]
    sizes = np.bincount(labels[order], minlength=len(counts))
    rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[labels[order]]
    drawn = np.zeros(len(labels), bool)
    drawn[order[rank < counts[labels[order]]]] = True
    return drawn
