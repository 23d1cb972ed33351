"""The memory that a step of a model takes, counted on tiny graphs: what its tensors hold when they hold most."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.classifier import NodeClassifier

NODES, FEW, MANY = 64, 2000, 4000
"""Of the counted graphs: nodes, and links, which all of them but few pairs of nodes have."""


@dataclass(frozen=True)
class Footprint:
    """Bytes of a step, forward and backward, for each node and for each link of its graph."""

    node: float
    link: float

    @classmethod
    def of(cls, model: NodeClassifier, inputs: int) -> Footprint:
        """Counted with the model itself, so that it holds for every backbone.

        The most that is held at once is the largest of sums a n + b e, one for each moment, of n nodes and e links. A
        graph without links tells the largest a, one with almost all of them the largest b; both together are a bound.
        """
        own = deepcopy(model).cpu()
        lone, more = (held_bytes(own, inputs, nodes, 0) for nodes in (NODES, 2 * NODES))
        few, many = (held_bytes(own, inputs, NODES, links) for links in (FEW, MANY))
        return cls((more - lone) / NODES, (many - few) / (MANY - FEW))

    def bytes(self, nodes: int, links: int) -> float:
        """Of a step on a graph."""
        return self.node * nodes + self.link * links


def held_bytes(model: NodeClassifier, inputs: int, nodes: int, links: int) -> int:
    """The most that the tensors of a step hold at once, on a graph of so many nodes and distinct links.

    Args:
        model: on the CPU.
        inputs: features of a node.
        nodes: at least 1.
        links: at most nodes · (nodes − 1).
    """
    generator, count = torch.Generator().manual_seed(0), torch.arange(links)
    edges = torch.stack([count % nodes, (count + 1 + count // nodes) % nodes])
    adjacency, y = normalised_adjacency(edges, nodes), torch.zeros(nodes, dtype=torch.long)
    with Held() as held, torch.enable_grad():
        x = torch.randn(nodes, inputs, generator=generator)
        functional.cross_entropy(model(x, adjacency, generator), y).backward()
    model.zero_grad(set_to_none=True)
    return held.most


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
