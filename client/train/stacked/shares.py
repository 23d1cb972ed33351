"""What each site brings into a training of all clients at once, and the tables of all of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.train.examples import Examples
from fedtag.client.train.stacked.graphs import one_graph, side_by_side
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import Parameters


@dataclass(frozen=True, eq=False)
class Share:
    """What a site brings.

    Args:
        model: that it trains, as every other site has one.
        start: the parameters with which it begins, where it has received none.
        examples: what it learns from in every round; None where there is nothing to learn.
        graph, adjacency: on which it scores.
        judges: the validation nodes by which it judges models.
        reported: what the server is told of the examples.
    """

    model: NodeClassifier
    start: Parameters
    examples: Examples | None
    graph: Graph
    adjacency: Adjacency
    judges: Bool[Tensor, " nodes"]
    reported: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def judging(self) -> int:
        """How many nodes judge, which a device need be asked only once."""
        return int(self.judges.sum())


@dataclass(frozen=True, eq=False)
class Table:
    """Nodes of all clients, with as many rows for each."""

    x: Float[Tensor, "nodes inputs"]
    adjacency: Adjacency
    rows: int

    @classmethod
    def of(cls, parts: Sequence[tuple[Tensor, Adjacency]]) -> Table:
        """Of each client its features and the propagation between its nodes."""
        rows = max(len(x) for x, _ in parts)
        x = side_by_side([x for x, _ in parts], rows)
        return cls(x, one_graph([adjacency for _, adjacency in parts], rows), rows)


@dataclass(frozen=True, eq=False)
class Together:
    """What all sites bring.

    Args:
        names: of the clients, in the order of their rows.
        trained: the nodes that are learned from, with those around them.
        labels, weights: of these nodes; the weights of a client's labels add up to 1, or to 0 where it has none.
        scored: the nodes on which models are scored, with those around them.
        places: rows of `scored` that are counted.
        groups: of each of these: 2k for validation, 2k + 1 for test nodes of client k.
        classes: of each of these.
    """

    names: tuple[str, ...]
    trained: Table
    labels: Int[Tensor, " nodes"]
    weights: Float[Tensor, " nodes"]
    scored: Table
    places: Int[Tensor, " places"]
    groups: Int[Tensor, " places"]
    classes: Int[Tensor, " places"]

    @classmethod
    def of(cls, shares: Mapping[str, Share]) -> Together:
        """Side by side, in the order of the mapping; on the device of the graphs."""
        parts = list(shares.values())
        scored = Table.of([(one.graph.x, one.adjacency) for one in parts])
        learned = [one.examples or _nothing(one) for one in parts]
        same = all(
            own.x is one.graph.x and own.adjacency is one.adjacency
            for own, one in zip(learned, parts, strict=True)
        )
        trained = scored if same else Table.of([(own.x, own.adjacency) for own in learned])
        places, groups = [], []
        for number, one in enumerate(parts):
            for offset, mask in enumerate((one.judges, one.graph.test_mask)):
                found = mask.nonzero().squeeze(1)
                places.append(found + number * scored.rows)
                groups.append(torch.full_like(found, 2 * number + offset))
        place = torch.cat(places)
        return cls(
            tuple(shares),
            trained,
            side_by_side([own.y.clamp(min=0) for own in learned], trained.rows),
            side_by_side([_weights(own) for own in learned], trained.rows),
            scored,
            place,
            torch.cat(groups),
            side_by_side([one.graph.y for one in parts], scored.rows)[place],
        )


def _nothing(share: Share) -> Examples:
    graph = share.graph
    return Examples(graph.x, share.adjacency, graph.y, torch.zeros_like(graph.train_mask))


def _weights(examples: Examples) -> Float[Tensor, " nodes"]:
    """Of labels, with the sum 1; a client without any has zeros."""
    weight = examples.mask.to(examples.x.dtype) if examples.weight is None else examples.weight
    return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)
