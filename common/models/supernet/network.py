"""The network of one architecture, with the weights by the names that they have in the supernet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, Stage, Values
from fedtag.common.models.dropout import dropout
from fedtag.common.models.supernet.activations import FUNCTIONS
from fedtag.common.models.supernet.aggregations import aggregate
from fedtag.common.models.supernet.architecture import Architecture, CellArchitecture
from fedtag.common.models.supernet.cell import edge_name
from fedtag.common.models.supernet.filters import GATES
from fedtag.common.models.supernet.projection import projected, projections


class DiscreteCell(nn.Module):
    """A cell of which only an architecture's edges are left.

    Args:
        architecture: of the cell.
        dim: width.
    """

    def __init__(self, architecture: CellArchitecture, dim: int) -> None:
        super().__init__()
        self.architecture = architecture
        gated = [
            (target, edge)
            for target, edges in architecture.layers["filter"].items()
            for edge in edges
            if edge.operation in GATES
        ]
        self.gates = nn.ModuleDict(
            {
                edge_name(target, edge.source): nn.ModuleDict({edge.operation: GATES[edge.operation](dim)})
                for target, edge in gated
            }
        )
        terminal = sorted(architecture.layers["activate"])
        self.projection = projections(terminal, dim)
        self.register_buffer("gain", torch.ones(1))

    @property
    def reads_before(self) -> bool:
        """Whether the cell looks at X beside H: by an edge, or by a gate, which reads both."""
        edges = [edge for edges in self.architecture.layers["filter"].values() for edge in edges]
        return any(edge.source == 1 or edge.operation in GATES for edge in edges)

    def forward(
        self,
        h: Float[Tensor, "nodes dim"],
        x: Float[Tensor, "nodes dim"] | None,
        adjacency: Adjacency,
    ) -> Float[Tensor, "nodes dim"]:
        layers = self.architecture.layers
        values = {0: h} if x is None else {0: h, 1: x}
        context = None if x is None else torch.cat([h, x], dim=1)
        filtered = {}
        for target, edges in layers["filter"].items():
            parts = []
            for edge in edges:
                value = values[edge.source]
                if edge.operation in GATES:
                    gate = self.gates[edge_name(target, edge.source)].get_submodule(edge.operation)
                    value = gate(value, context)
                parts.append(edge.weight * value)
            filtered[target] = torch.stack(parts).sum(0)
        hidden = {
            target: torch.stack(
                [edge.weight * aggregate(edge.operation, filtered[edge.source], adjacency) for edge in edges]
            ).sum(0)
            for target, edges in layers["aggregate"].items()
        }
        terminal = {
            target: torch.stack(
                [edge.weight * FUNCTIONS[edge.operation](hidden[edge.source]) for edge in edges]
            ).sum(0)
            for target, edges in layers["activate"].items()
        }
        ends = [value for _, value in sorted(terminal.items())]
        blocks = list(self.projection.children())
        return projected(torch.stack(ends), blocks, len(ends), self.get_buffer("gain"))


class DiscreteNetwork(NodeClassifier):
    """The network of an architecture. Its parameters have the names of the supernet's.

    It has no module of which it makes no use: no gates on removed edges, no projections of removed nodes, and no
    second projection of the features unless the first cell reads it.

    Args:
        architecture: of every cell.
        inputs: feature dimension.
        hidden: width of all cells.
        classes: number of classes.
        rate: dropout of the features and before the classifier, in [0, 1).
    """

    def __init__(
        self, architecture: Architecture, inputs: int, hidden: int, classes: int, rate: float
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        cells = [DiscreteCell(cell, hidden) for cell in architecture.cells]
        self.second = nn.Linear(inputs, hidden) if cells[0].reads_before else None
        self.cells = nn.ModuleList(cells)
        self.classifier = nn.Linear(hidden, classes)
        self.rate = rate

    def hidden_and_logits(
        self,
        x: Float[Tensor, "nodes inputs"],
        adjacency: Adjacency,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        """What the last cell gives, and the logits."""
        x = dropout(x, self.rate, generator)
        h = self.first(x)
        before = None if self.second is None else self.second(x)
        for cell in self.cells:
            h = before = cell(h, before, adjacency)
        return h, self.classifier(dropout(h, self.rate, generator))

    def stages(self) -> Sequence[Stage]:
        """The projections, each cell, the classifier."""

        def begin(values: Values, adjacency: Adjacency) -> Values:
            (x,) = values
            return self.first(x), *(() if self.second is None else (self.second(x),))

        def through(cell: nn.Module, first: bool, values: Values, adjacency: Adjacency) -> Values:
            # What comes before the first cell is there only where that cell reads it.
            before = None if first and self.second is None else values[-1]
            return (cell(values[0], before, adjacency),)

        return [
            Stage(0, begin),
            *(Stage(1, partial(through, cell, place == 0)) for place, cell in enumerate(self.cells)),
            Stage(0, lambda values, _: (values[0], self.classifier(values[0]))),
        ]


def discrete_network(
    architecture: Architecture, supernet: Mapping[str, Tensor], rate: float
) -> DiscreteNetwork:
    """The network of an architecture with the weights that a supernet has for it.

    Args:
        architecture: with as many cells as the supernet.
        supernet: its parameters by name.
        rate: dropout.
    """
    hidden, inputs = supernet["first.weight"].shape
    # Initial values would be drawn from the global generator, only to be replaced.
    with torch.device("meta"):
        network = DiscreteNetwork(architecture, inputs, hidden, supernet["classifier.weight"].shape[0], rate)
    own = {name: supernet[name].detach().clone() for name in network.state_dict()}
    network.load_state_dict(own, assign=True)
    return network


def used_names(architecture: Architecture) -> frozenset[str]:
    """Names of the supernet's parameters of which an architecture makes use."""
    with torch.device("meta"):
        return frozenset(DiscreteNetwork(architecture, 1, 1, 1, 0.0).state_dict())


def always_used(name: str) -> bool:
    """Whether every architecture makes use of a parameter: first projection, gains, classifier."""
    return name.startswith(("first.", "classifier.")) or name.endswith(".gain")


def parameter_count(network: nn.Module) -> int:
    """How many numbers are trained, those of the architecture apart."""
    return sum(value.numel() for value in network.parameters())
