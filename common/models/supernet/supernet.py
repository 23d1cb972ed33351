"""The supernet: every architecture of the search space in one set of weights (Liu et al., Fig. 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, Stage, Values
from fedtag.common.models.dropout import dropout
from fedtag.common.models.supernet.cell import Cell
from fedtag.common.models.supernet.logits import CellLogits
from fedtag.common.randomness import derive_seed, seeded
from fedtag.common.settings.sections import ModelConfig


class Supernet(NodeClassifier):
    """Two projections of the features, cells one after the other, a linear classifier.

    The first cell takes H = P_1 x and X = P_2 x; for a later one both are the output of the cell before, so that no
    cell is skipped: an edge past it would win the search on a few labels, where raw features fit best. Weights have
    the names by which the networks that are cut out of it have them; those of the architecture begin with
    "architecture.".

    Args:
        inputs: feature dimension.
        hidden: width of all cells.
        classes: number of classes.
        cells: at least 1.
        rate: dropout of the features and before the classifier, in [0, 1).
    """

    def __init__(self, inputs: int, hidden: int, classes: int, cells: int, rate: float) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(inputs, hidden)
        self.cells = nn.ModuleList(Cell(hidden) for _ in range(cells))
        self.classifier = nn.Linear(hidden, classes)
        self.architecture = nn.ModuleList(CellLogits() for _ in range(cells))
        self.rate = rate
        for layer in (self.first, self.second, self.classifier):
            # As in graph convolutions; the default of a linear layer would start words too near to zero.
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def hidden_and_logits(
        self,
        x: Float[Tensor, "nodes inputs"],
        adjacency: Adjacency,
        generator: torch.Generator | None = None,
    ) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
        """What the last cell gives, and the logits."""
        x = dropout(x, self.rate, generator)
        h, before = self.first(x), self.second(x)
        for cell, logits in zip(self.cells, self.architecture, strict=True):
            h = before = cell(h, before, adjacency, cast(CellLogits, logits).weights())
        return h, self.classifier(dropout(h, self.rate, generator))

    def stages(self) -> Sequence[Stage]:
        """The projections, each cell, the classifier."""

        def through(cell: nn.Module, logits: nn.Module) -> Callable[[Values, Adjacency], Values]:
            weights = cast(CellLogits, logits).weights()

            def apply(values: Values, adjacency: Adjacency) -> Values:
                out = cell(values[0], values[-1], adjacency, weights)
                return (out,)

            return apply

        cells = zip(self.cells, self.architecture, strict=True)
        return [
            Stage(0, lambda values, _: (self.first(values[0]), self.second(values[0]))),
            *(Stage(1, through(cell, logits)) for cell, logits in cells),
            Stage(0, lambda values, _: (values[0], self.classifier(values[0]))),
        ]


def initial_supernet(model: ModelConfig, cells: int, dimension: int, classes: int, seed: int) -> Supernet:
    """The supernet with its initial values, the same on every machine for the same seed of the run."""
    return seeded(
        lambda: Supernet(dimension, model.hidden, classes, cells, model.dropout),
        derive_seed(seed, "initial model"),
    )
