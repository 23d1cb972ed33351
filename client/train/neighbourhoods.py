"""Parts of a graph around some nodes, as graphs of their own: drawn by seed, or all that a result depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.graph import Adjacency
from fedtag.common.numerics.ragged import Ragged, segment_rank, segment_sum


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Some nodes of a graph, ascending, and the propagation between them.

    Args:
        nodes: of the graph.
        adjacency: over them, in this order.
        targets: the places among them of the nodes around which they lie, in the order in which these were asked for.
    """

    nodes: Int[Tensor, " nodes"]
    adjacency: Adjacency
    targets: Int[Tensor, " targets"]


class Entries(NamedTuple):
    """All entries of some nodes.

    Args:
        entry: positions among those of the graph.
        source: places of the sources among the nodes, −1 for one that is not there.
        target: places of the targets.
        chosen: places of the nodes that were asked for.
    """

    entry: Int[Tensor, " entries"]
    source: Int[Tensor, " entries"]
    target: Int[Tensor, " entries"]
    chosen: Int[Tensor, " targets"]


class Neighbourhoods:
    """The neighbourhoods of a graph's nodes, by its entries of each target; nothing here loops over nodes.

    Args:
        adjacency: with self-loops, on any device; what is made of it lies there.
    """

    def __init__(self, adjacency: Adjacency) -> None:
        self.adjacency = adjacency
        source, target = adjacency.edge_index
        self.sources = Ragged(adjacency.pointers, source)
        self._loop = source == target
        self._place = torch.full((adjacency.num_nodes,), -1, device=source.device)

    @cached_property
    def _from_others(self) -> Float[Tensor, " nodes"]:
        """The weights of each target's entries from other nodes, summed."""
        weight = self.adjacency.weight.where(~self._loop, 0.0)
        return segment_sum(weight, self.adjacency.pointers)

    def drawn(
        self, targets: Int[Tensor, " targets"], hops: int, fan_out: int, generator: torch.Generator
    ) -> Subgraph:
        """The induced graph on the targets and on neighbours that are drawn, hop by hop (Hamilton et al., 2017).

        Entries are those of the whole graph. Where some neighbours of a node are missing, those of it that are there
        are scaled so that they sum to what all of them sum to in the whole graph; so the aggregates of a graph
        convolution keep their size, and with all neighbours nothing is scaled.

        Args:
            targets: distinct nodes.
            hops: at least 0.
            fan_out: most neighbours that a node brings in, drawn without repetition; 0: all.
            generator: on the graph's device.
        """
        nodes = edge = torch.unique(targets)
        for _ in range(hops):
            near = self.sources.select(edge)
            if fan_out:
                # The node itself, which is there already, is no neighbour: it comes last.
                keys = torch.rand(near.index.numel(), generator=generator, device=near.index.device)
                keys = keys.masked_fill(near.index == edge[near.row], -1.0)
                near = near.filter((segment_rank(keys, near.ptr) < fan_out) & (keys >= 0))
            found = torch.unique(near.index)
            edge = found[~torch.isin(found, nodes, assume_unique=True)]
            nodes = torch.cat([nodes, edge]).sort().values
        return self._induced(nodes, targets)

    def reached(self, targets: Int[Tensor, " targets"], hops: int) -> Subgraph:
        """All nodes on which layers of so many hops depend at the targets, with the entries that they need.

        These are all entries of nodes that are nearer than `hops`; of the others their loops alone, so that no node is
        without an entry.

        Args:
            targets: distinct nodes.
            hops: at least 0.
        """
        inner = nodes = torch.unique(targets)
        for _ in range(hops):
            inner, nodes = nodes, torch.unique(torch.cat([nodes, self.sources.select(nodes).index]))
        near = torch.isin(nodes, inner, assume_unique=True) if hops else torch.zeros_like(nodes).bool()
        own = self._entries(nodes, targets)
        return self._between(nodes, own, near[own.target] | self._loop[own.entry])

    def _induced(self, nodes: Int[Tensor, " nodes"], targets: Int[Tensor, " targets"]) -> Subgraph:
        own = self._entries(nodes, targets)
        kept = own.source >= 0
        part = self._between(nodes, own, kept)
        if bool(kept.all()):
            return part
        # What is complete keeps its entries to the bit.
        source, target = part.adjacency.edge_index
        weight, others = part.adjacency.weight, source != target
        whole = torch.bincount(target, minlength=nodes.numel()) == self.sources.width[nodes]
        there = segment_sum(weight.where(others, 0.0), part.adjacency.pointers)
        scale = torch.where(whole | (there == 0), 1.0, self._from_others[nodes] / there.where(there > 0, 1.0))
        weight = torch.where(others, weight * scale[target], weight)
        return replace(part, adjacency=replace(part.adjacency, weight=weight))

    def _entries(self, nodes: Int[Tensor, " nodes"], targets: Int[Tensor, " targets"]) -> Entries:
        entry = self.sources.entries_of(nodes)
        place = torch.arange(nodes.numel(), device=nodes.device)
        self._place[nodes] = place
        source, chosen = self._place[self.sources.index[entry]], self._place[targets]
        self._place[nodes] = -1
        return Entries(entry, source, place.repeat_interleave(self.sources.width[nodes]), chosen)

    def _between(
        self, nodes: Int[Tensor, " nodes"], own: Entries, kept: Bool[Tensor, " entries"]
    ) -> Subgraph:
        """The kept entries of some nodes, whose sources are among them."""
        edges = torch.stack([own.source[kept], own.target[kept]])
        adjacency = Adjacency(edges, self.adjacency.weight[own.entry[kept]], nodes.numel())
        return Subgraph(nodes, adjacency, own.chosen)
