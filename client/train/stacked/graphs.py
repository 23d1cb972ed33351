"""The graphs of many clients side by side as one, and operations over its links that no other order of sums can change.

Each client has as many rows as the one with the most nodes; rows beyond its own are nodes without edges and labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding_bag
from torch.overrides import TorchFunctionMode

from fedtag.common.graph import Adjacency

Place = tuple[int, int]
"""Where an index lies in memory, and how long it is."""


def side_by_side(values: Sequence[Tensor], rows: int, fill: float = 0) -> Tensor:
    """Tables of clients under one another, each filled up to as many rows."""
    return torch.cat(
        [torch.cat([value, value.new_full((rows - len(value), *value.shape[1:]), fill)]) for value in values]
    )


def one_graph(graphs: Sequence[Adjacency], rows: int) -> Adjacency:
    """The propagation matrix with those of clients along its diagonal; a row that no node has propagates itself alone.

    Args:
        graphs: of each client, with self-loops.
        rows: of each client, at least its number of nodes.
    """
    links, weights = [], []
    for place, graph in enumerate(graphs):
        spare = torch.arange(graph.num_nodes, rows, device=graph.edge_index.device)
        links.append(torch.cat([graph.edge_index, spare.expand(2, -1)], dim=1) + place * rows)
        weights.append(torch.cat([graph.weight, graph.weight.new_ones(len(spare))]))
    return Adjacency(torch.cat(links, dim=1).contiguous(), torch.cat(weights), rows * len(graphs))


@dataclass(frozen=True, eq=False)
class Ends:
    """At which node each link begins, or ends.

    Args:
        index: the node of each link.
        order: links by node, in their own order where they have one node.
        first: where the links of each node begin in that order.
    """

    index: Int[Tensor, " links"]
    order: Int[Tensor, " links"]
    first: Int[Tensor, " nodes"]

    @classmethod
    def of(cls, index: Int[Tensor, " links"], nodes: int) -> Ends:
        """Sort the links once for all sums."""
        count, order = torch.bincount(index, minlength=nodes), torch.argsort(index, stable=True)
        return cls(index, order, count.cumsum(0) - count)

    def gathered(self, x: Float[Tensor, "nodes ..."]) -> Float[Tensor, "links ..."]:
        """The row of each link's node."""
        return x.index_select(0, self.index)

    def summed(self, rows: Float[Tensor, "links ..."]) -> Float[Tensor, "nodes ..."]:
        """For each node the sum over its links, always in the same order."""
        found = embedding_bag(self.order, rows.reshape(len(rows), -1), self.first, mode="sum")
        return found.view(len(self.first), *rows.shape[1:])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return ends.gathered(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ends.summed(gradient), None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, ends: Ends) -> Tensor:
        ctx.ends = ends
        return ends.summed(rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.ends.gathered(gradient), None


class OrderedSums(TorchFunctionMode):
    """While it lasts, what layers gather and add up along the links of known graphs is summed in a fixed order.

    That holds for gradients too, so that two runs on a device are equal to the bit, where scattered additions are not;
    and nothing waits for the device.

    Args:
        graphs: whose links are known.
    """

    def __init__(self, graphs: Iterable[Adjacency]) -> None:
        super().__init__()
        # As long as a graph is kept, nothing else can lie at the addresses of its links.
        self._graphs = tuple(graphs)
        self._ends: dict[Place, Ends] = {}
        for graph in self._graphs:
            for links in (graph.edge_index, graph.edge_index_without_loops):
                if links.shape[1]:
                    self._ends |= {_place(ends): Ends.of(ends, graph.num_nodes) for ends in links}
        self._instead: Mapping[Any, Callable[..., Tensor | None]] = {
            Tensor.index_select: self._gather,
            Tensor.scatter_add_: self._add,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        instead = self._instead.get(func)
        found = None if instead is None else instead(*args, **kwargs)
        return func(*args, **kwargs) if found is None else found

    def _known(self, index: Tensor, dim: int, of: int) -> Ends | None:
        return self._ends.get(_place(index)) if index.numel() and dim % of == 0 else None

    def _gather(self, x: Tensor, dim: int, index: Tensor) -> Tensor | None:
        ends = self._known(index, dim, x.dim())
        return None if ends is None else _Gather.apply(x, ends)

    def _add(self, total: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor | None:
        ends = self._known(index, dim, total.dim())
        return None if ends is None or not src.is_floating_point() else total.add_(_Sum.apply(src, ends))


def _place(index: Tensor) -> Place:
    """What tells an index from others, also where it is repeated over columns."""
    return index.data_ptr(), index.shape[0]
