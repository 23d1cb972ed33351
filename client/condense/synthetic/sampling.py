"""Class-wise sampled subgraphs of the real graph, on which its gradients are taken."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.graph import Adjacency, Graph
from fedtag.common.numerics.ragged import segment_rank
from fedtag.common.synthetic.gradients import Batch


class ClassSampler:
    """Training nodes of every class with their neighbours within two hops, at most so many of each.

    A node's neighbours beyond the budget are drawn anew in every batch, and the kept ones weigh more by the number
    of all over that of the kept, so that sums over neighbours keep their expectation. Memory grows with the
    edges and with classes · class_budget · neighbours, never with the square of the nodes. Where no budget binds,
    all batches are one and the same.

    Args:
        graph: with at least one training node.
        class_budget: most training nodes of a class.
        neighbours: most neighbours of a node at either hop.
        generator: on the CPU.
    """

    def __init__(self, graph: Graph, class_budget: int, neighbours: int, generator: torch.Generator) -> None:
        self.adjacency = graph.adjacency()
        self.x = graph.x
        self.y = graph.y
        self.class_budget = class_budget
        self.neighbours = neighbours
        self.generator = generator
        self.train = graph.train_mask.nonzero().squeeze(1)
        self.sizes = torch.bincount(graph.y[self.train], minlength=graph.num_classes)
        target = self.adjacency.edge_index_without_loops[1]
        degrees = torch.bincount(target, minlength=graph.num_nodes)
        self.exact = int(self.sizes.max()) <= class_budget and int(degrees.max()) <= neighbours
        self._whole: Batch | None = None
        self._propagated = self.adjacency.propagate(self.x) if int(degrees.max()) <= neighbours else None

    def batch(self) -> Batch:
        """The next batch."""
        if self._whole is not None:
            return self._whole
        labelled = self.train if int(self.sizes.max()) <= self.class_budget else self._labelled()
        rows, second_entries, second_weights = self._neighbourhood(labelled)
        read, columns = torch.unique(torch.cat([labelled, second_entries]), sorted=True, return_inverse=True)
        second = torch.sparse_coo_tensor(
            torch.stack([rows, columns[labelled.numel() :]]),
            second_weights,
            (labelled.numel(), read.numel()),
            check_invariants=False,
        ).coalesce()
        if self._propagated is not None:
            propagated = self._propagated[read]
        else:
            receivers, entries, weights = self._neighbourhood(read)
            propagated = self.x.new_zeros(read.numel(), self.x.shape[1])
            propagated = propagated.index_add(0, receivers, weights.unsqueeze(1) * self.x[entries])
        batch = Batch(propagated, second, self.y[labelled])
        if self.exact:
            self._whole = batch
        return batch

    def _labelled(self) -> Int[Tensor, " labelled"]:
        """At most the budget of training nodes of each class, drawn without replacement, ascending."""
        order = torch.randperm(self.train.numel(), generator=self.generator).to(self.train.device)
        drawn = self.train[order]
        drawn = drawn[torch.sort(self.y[drawn], stable=True).indices]
        begin = self.sizes.cumsum(0) - self.sizes
        rank = torch.arange(drawn.numel(), device=drawn.device) - begin[self.y[drawn]]
        return drawn[rank < self.class_budget].sort().values

    def _neighbourhood(
        self, nodes: Int[Tensor, " rows"]
    ) -> tuple[Int[Tensor, " entries"], Int[Tensor, " entries"], Float[Tensor, " entries"]]:
        """Row, node and weight of the kept entries in some rows of the propagation matrix; nodes and rows ascend."""
        position = self.y.new_full((self.adjacency.num_nodes,), -1)
        position[nodes] = torch.arange(nodes.numel(), device=nodes.device)
        source, target = self.adjacency.edge_index
        entries = (position[target] >= 0).nonzero().squeeze(1)
        rows, found, weights = position[target[entries]], source[entries], self.adjacency.weight[entries]
        loop = found == target[entries]
        kept, factor = self._kept(rows, loop, nodes.numel())
        return rows[kept], found[kept], (weights * factor)[kept]

    def _kept(
        self, rows: Int[Tensor, " entries"], loop: Bool[Tensor, " entries"], num_rows: int
    ) -> tuple[Bool[Tensor, " entries"], Float[Tensor, " entries"]]:
        """Which entries stay, loops always, and by what the weights of the others grow."""
        degrees = torch.bincount(rows[~loop], minlength=num_rows)
        factor = torch.where(loop, 1.0, degrees[rows] / self.neighbours).clamp_min(1.0)
        if not bool((degrees > self.neighbours).any()):
            return torch.ones_like(loop), torch.ones_like(factor)
        keys = torch.rand(rows.numel(), generator=self.generator).to(rows.device)
        pointers = torch.cat([rows.new_zeros(1), torch.bincount(rows, minlength=num_rows).cumsum(0)])
        rank = segment_rank(torch.where(loop, 2.0, keys), pointers)
        # The loop has rank 0.
        return rank <= self.neighbours, factor


def whole_batch(
    x: Float[Tensor, "nodes dim"],
    adjacency: Adjacency,
    nodes: Bool[Tensor, " nodes"],
    y: Int[Tensor, " nodes"],
) -> Batch:
    """Some nodes with all of their neighbours."""
    position = torch.cumsum(nodes, 0) - 1
    source, target = adjacency.edge_index
    kept = nodes[target]
    second = torch.sparse_coo_tensor(
        torch.stack([position[target[kept]], source[kept]]),
        adjacency.weight[kept],
        (int(nodes.sum()), adjacency.num_nodes),
        check_invariants=False,
    ).coalesce()
    return Batch(adjacency.propagate(x), second, y[nodes])
