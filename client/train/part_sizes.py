"""How large the parts of a graph can be, by the degrees of its nodes alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class PartSize(NamedTuple):
    """Of a part, at the most.

    Args:
        nodes: in it.
        links: between different ones of them, each direction counted.
        entries: of the graph that are looked through to find it.
    """

    nodes: int
    links: int
    entries: int


class PartSizes:
    """Bounds on parts of a graph (`Neighbourhoods`), however its links lie, as in a dense core.

    Args:
        edge_index: without self-loops.
        nodes: of the graph.
    """

    def __init__(self, edge_index: Int[Tensor, "2 edges"], nodes: int) -> None:
        self.nodes = nodes
        self.degree = torch.bincount(edge_index[1].cpu(), minlength=nodes)
        self._sorted = self.degree.sort(descending=True).values

    def drawn(self, size: int, hops: int, fan_out: int) -> PartSize:
        """Of `Neighbourhoods.drawn` around `size` nodes: as many as can be, of most links, each linked to all of them
        as far as it has links.
        """
        grown = size * sum(fan_out**hop for hop in range(hops + 1))
        nodes = self.nodes if hops and not fan_out else min(self.nodes, grown)
        links = int(self._sorted[:nodes].clamp_max(nodes - 1).sum())
        return PartSize(nodes, links, self._entries(nodes))

    def reached(self, size: int, hops: int) -> PartSize:
        """Of `Neighbourhoods.reached` around `size` nodes that follow one another in the graph's order."""
        nodes, links = min(size, self.nodes), 0
        for hop in range(hops):
            links = int(self._sorted[:nodes].sum()) if hop else self._most_in_turn(size)
            nodes = min(self.nodes, nodes + links)
        return PartSize(nodes, links, self._entries(nodes))

    def _entries(self, nodes: int) -> int:
        return nodes + int(self._sorted[:nodes].sum())

    def _most_in_turn(self, size: int) -> int:
        ends = torch.cat([self.degree.new_zeros(1), self.degree.cumsum(0)])
        starts = torch.arange(0, self.nodes, size)
        return int((ends[(starts + size).clamp_max(self.nodes)] - ends[starts]).max())
