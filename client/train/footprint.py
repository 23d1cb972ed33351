"""The memory that work on a graph takes, counted on tiny graphs: what its tensors hold when they hold most."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from fedtag.client.train.neighbourhoods import Neighbourhoods
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.models.classifier import NodeClassifier, Values

Work = Callable[[NodeClassifier, Tensor, Adjacency], None]

NODES, FEW, MANY = 128, 15_000, 16_000
"""Of the counted graphs: nodes, and links, which all of them but few pairs of nodes have."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of some work, for each node and for each link of its graph."""

    node: float
    link: float

    @classmethod
    def of(cls, model: NodeClassifier, inputs: int) -> Footprint:
        """Of a step, forward and backward."""
        generator = torch.Generator().manual_seed(0)

        def step(one: NodeClassifier, x: Tensor, adjacency: Adjacency) -> None:
            y = torch.zeros(x.shape[0], dtype=torch.long)
            functional.cross_entropy(one(x, adjacency, generator), y).backward()

        return cls._counted(step, model, inputs)

    @classmethod
    def of_pass(cls, model: NodeClassifier, inputs: int) -> Footprint:
        """Of a pass without gradients, stage after stage."""

        def passed(one: NodeClassifier, x: Tensor, adjacency: Adjacency) -> None:
            values: Values = (x,)
            del x
            with torch.no_grad():
                for stage in one.stages():
                    values = stage.apply(values, adjacency)

        return cls._counted(passed, model, inputs)

    @classmethod
    def _counted(cls, work: Work, model: NodeClassifier, inputs: int) -> Footprint:
        """Counted with the model itself, so that it holds for every backbone.

        The most that is held at once is the largest of sums a n + b e, one for each moment, of n nodes and e links. A
        graph without links tells the largest a, one with almost all of them the largest b; both together are a bound.
        """
        own = deepcopy(model).cpu()
        lone, more = (held_bytes(work, own, inputs, nodes, 0) for nodes in (NODES, 2 * NODES))
        few, many = (held_bytes(work, own, inputs, NODES, links) for links in (FEW, MANY))
        return cls((more - lone) / NODES, (many - few) / (MANY - FEW))

    def bytes(self, nodes: int, links: int) -> float:
        """Of the work on a graph."""
        return self.node * nodes + self.link * links


def held_bytes(work: Work, model: NodeClassifier, inputs: int, nodes: int, links: int) -> int:
    """The most that the tensors of some work hold at once, the graph's among them.

    Args:
        work: on a model, features and propagation.
        model: on the CPU.
        inputs: features of a node.
        nodes: at least 1.
        links: distinct ones, at most nodes · (nodes − 1).
    """
    generator, made = torch.Generator().manual_seed(0), ring(nodes, links)
    with Held() as held, torch.enable_grad():
        adjacency = Adjacency(made.edge_index.clone(), made.weight.clone(), nodes)
        work(model, torch.randn(nodes, inputs, generator=generator), adjacency)
    model.zero_grad(set_to_none=True)
    return held.most


@cache
def finding_bytes() -> float:
    """The most that finding a part of a graph holds for each entry that it looks through, in the host's memory."""
    graphs = [Neighbourhoods(ring(NODES, links)) for links in (FEW, MANY)]
    half, more = torch.arange(NODES // 2), MANY - FEW
    # Half of the nodes have half of the entries, and lack neighbours, which takes more than to have all.
    ways: tuple[tuple[Callable[[Neighbourhoods], object], float], ...] = (
        (lambda near: near.drawn(half, 0, 1, torch.Generator()), more / 2),
        (lambda near: near.drawn(half, 2, NODES, torch.Generator()), more),
        (lambda near: near.drawn(half, 2, 0, torch.Generator()), more),
        (lambda near: near.reached(half, 2), more),
    )
    found = []
    for find, entries in ways:
        for near in graphs:
            find(near)  # What is made once is part of no part.
        few, many = (counted(partial(find, near)) for near in graphs)
        found.append((many - few) / entries)
    return max(found)


def counted(work: Callable[[], object]) -> int:
    """The most bytes that the tensors hold which some work makes."""
    with Held() as held:
        work()
    return held.most


def ring(nodes: int, links: int) -> Adjacency:
    """The propagation over so many nodes, each of them linked to those that follow it."""
    count = torch.arange(links)
    edges = torch.stack([count % nodes, (count + 1 + count // nodes) % nodes])
    return normalised_adjacency(edges, nodes)


class Held(TorchDispatchMode):
    """Counts the bytes of the tensors that are made while it is entered, each memory once, until it is let go.

    Attributes:
        now: bytes that are held.
        most: the most so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for value in made if isinstance(made, tuple | list) else (made,):
            if isinstance(value, Tensor):
                self._hold(value.untyped_storage())
        return made

    def _hold(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata in self._known:
            return
        self._known[storage._cdata] = storage.nbytes()
        self.now += storage.nbytes()
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._let_go, storage._cdata)

    def _let_go(self, key: int) -> None:
        self.now -= self._known.pop(key)
