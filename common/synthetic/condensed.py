"""A condensed graph: a few labelled nodes that stand for a whole graph in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.common.errors import WireError
from fedtag.common.graph import Adjacency, Graph, normalised_adjacency


@dataclass(frozen=True, eq=False)
class Condensed:
    """A condensed graph; one without nodes stands for a graph without training nodes.

    Args:
        x: features X'.
        y: label Y' of each node, in [0, C).
        edge_index: links between different nodes; an undirected one stands in both directions.
        edge_weight: above 0.
        copies: whether rows of x are rows of the original graph, so that they must not leave the client.
    """

    x: Float[Tensor, "core dim"]
    y: Int[Tensor, " core"]
    edge_index: Int[Tensor, "2 edges"]
    edge_weight: Float[Tensor, " edges"]
    copies: bool

    @classmethod
    def without_links(cls, x: Float[Tensor, "core dim"], y: Int[Tensor, " core"], copies: bool) -> Condensed:
        """Nodes on their own."""
        return cls(x, y, y.new_zeros((2, 0)), x.new_zeros(0), copies)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], copies: bool) -> Condensed:
        """The inverse of `tensors`."""
        return cls(tensors["x"], tensors["y"], tensors["edge_index"], tensors["edge_weight"], copies)

    @classmethod
    def foreign(cls, tensors: Mapping[str, Tensor], dimension: int, classes: int) -> Condensed:
        """The same for tensors of unknown origin; no row is a copy, as far as the holder can tell.

        Args:
            tensors: by name.
            dimension: of the features.
            classes: C.

        Raises:
            WireError: naming the first thing that keeps them from being a graph to train on.
        """
        shapes = {name: tuple(value.shape) for name, value in tensors.items()}
        nodes, links = shapes.get("y", ())[:1], shapes.get("edge_weight", ())[:1]
        forms = {
            "x": (torch.float32, (*nodes, dimension)),
            "y": (torch.int64, nodes),
            "edge_index": (torch.int64, (2, *links)),
            "edge_weight": (torch.float32, links),
        }
        for name in sorted(forms.keys() | tensors.keys()):
            got = (tensors[name].dtype, shapes[name]) if name in tensors else None
            if got != forms.get(name):
                raise WireError(f"{name} is {_form(got)} and should be {_form(forms.get(name))}")
        graph = cls.from_tensors(tensors, copies=False)
        rules = {
            "has no nodes": graph.num_nodes > 0,
            "has features that are not finite": graph.x.isfinite().all(),
            f"has labels outside its {classes} classes": ((graph.y >= 0) & (graph.y < classes)).all(),
            "has links to nodes that are not there": (
                (graph.edge_index >= 0) & (graph.edge_index < graph.num_nodes)
            ).all(),
            "has links whose weights are not above 0 and finite": (
                graph.edge_weight.isfinite() & (graph.edge_weight > 0)
            ).all(),
        }
        for fault, kept in rules.items():
            if not kept:
                raise WireError(f"the graph {fault}")
        return graph

    @property
    def num_nodes(self) -> int:
        return self.x.shape[0]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Everything but `copies`, by name, as it is kept on disk."""
        return {"x": self.x, "y": self.y, "edge_index": self.edge_index, "edge_weight": self.edge_weight}

    @cached_property
    def adjacency(self) -> Adjacency:
        """The normalised propagation matrix."""
        return normalised_adjacency(self.edge_index, self.num_nodes, self.edge_weight)

    def graph(self, num_classes: int) -> Graph:
        """The condensed graph as any other, all of its nodes being training nodes."""
        every = torch.ones(self.num_nodes, dtype=torch.bool, device=self.x.device)
        return Graph(
            self.x, self.edge_index, self.edge_weight, self.y, every, ~every, ~every, num_classes=num_classes
        )

    def to(self, device: torch.device | str) -> Condensed:
        moved = {name: value.to(device) for name, value in self.tensors.items()}
        return Condensed.from_tensors(moved, self.copies)


def _form(form: tuple[torch.dtype, tuple[int, ...]] | None) -> str:
    return "absent" if form is None else f"{str(form[0]).removeprefix('torch.')} of shape {form[1]}"
