"""Early stopping: the best of several condensed graphs, by what they teach a small model about validation nodes."""

from __future__ import annotations

import torch
from torch.nn import functional

from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.fitting import fitted
from fedtag.common.synthetic.gradients import Batch, initial_weights, logits


class Validation:
    """Keeps the best condensed graph, and says when no better one is to be expected.

    A score is the accuracy on the validation nodes of the real graph, then minus their cross-entropy, of a fresh
    model that was trained on the condensed graph. All candidates train the same initial model. Without validation
    nodes the last candidate is kept, and condensation goes on to its end.

    Args:
        graph: the real one; only the labels of its validation nodes are read.
        settings: width, steps and step size of the model, and patience.
        generator: of the initial model.
    """

    def __init__(self, graph: Graph, settings: CondenserConfig, generator: torch.Generator) -> None:
        self.settings = settings
        self.batch = whole_batch(graph.x, graph.adjacency(), graph.val_mask, graph.y)
        self.weights = initial_weights(
            "gcn", graph.x.shape[1], settings.hidden, graph.num_classes, generator, graph.x.device
        )
        self.best: Condensed | None = None
        self.score = (-1.0, 0.0)
        self.failures = 0

    @property
    def exhausted(self) -> bool:
        """Whether patience is at its end."""
        return self.failures >= self.settings.patience

    def consider(self, candidate: Condensed) -> None:
        """Keep a candidate if it is better than all before it."""
        score = self._score(candidate)
        if self.best is None or self.batch.y.numel() == 0 or score > self.score:
            self.best, self.score, self.failures = candidate, score, 0
        else:
            self.failures += 1

    @torch.no_grad()
    def _score(self, candidate: Condensed) -> tuple[float, float]:
        if self.batch.y.numel() == 0:
            return self.score
        settings = self.settings
        weights = fitted(
            self.weights,
            condensed_batch(candidate),
            settings.validation_steps,
            settings.model_rate,
            settings.weight_decay,
        )
        scored = logits(weights, self.batch)
        accuracy = (scored.argmax(1) == self.batch.y).double().mean()
        return float(accuracy), -float(functional.cross_entropy(scored, self.batch.y))


def condensed_batch(condensed: Condensed) -> Batch:
    """All nodes of a condensed graph."""
    every = torch.ones(condensed.num_nodes, dtype=torch.bool, device=condensed.x.device)
    return whole_batch(condensed.x, condensed.adjacency, every, condensed.y)
