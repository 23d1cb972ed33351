"""Condensation by gradient matching: GCond, and its variant without links.

GCond (Jin et al., 2022) learns features X' and links A' = g(X') such that a model gets the same gradients from the
condensed graph as from the real one, at several points of its training and for many initial models. `gcond-x` has
no links.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from client.condense.synthetic.registry import Report
from client.condense.synthetic.sampling import ClassSampler
from client.condense.synthetic.validation import Validation
from common.errors import DivergenceError
from common.graph import Graph
from common.method_sections import CondenserConfig
from common.synthetic.adjacency import link_network, listed, normalised_links, thresholded
from common.synthetic.condensed import Condensed
from common.synthetic.fitting import fitted
from common.synthetic.gradients import Batch, Weights, class_gradients, initial_weights
from common.synthetic.initial import gaussian_features, moments
from common.synthetic.labels import condensed_labels
from common.synthetic.matching import gradient_distance


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Match gradients until validation finds nothing better; arguments as of `registry.condense`."""
    return matched(graph, size, settings, generator, report, settings.outer_loops, settings.inner_loops)


def matched(
    graph: Graph,
    size: int,
    settings: CondenserConfig,
    generator: torch.Generator,
    report: Report | None,
    models: int,
    points: int,
) -> Condensed:
    """Match gradients of some models at some points of their training.

    Args:
        graph, size, settings, generator, report: as of `registry.condense`.
        models: fresh ones, at least 1.
        points: of each, the first before any training; at least 1.
    """
    every = max(1, settings.validate_every * settings.inner_loops // points)
    learner = Learner(graph, size, settings, generator)
    validation = Validation(graph, settings, generator)
    validation.consider(learner.result())
    for number in range(1, models + 1):
        weights = initial_weights(
            settings.matching_model,
            graph.x.shape[1],
            settings.hidden,
            graph.num_classes,
            generator,
            graph.x.device,
        )
        for point in range(points):
            if point:
                weights = fitted(
                    weights, learner.batch(), settings.model_steps, settings.model_rate, settings.weight_decay
                )
            learner.match(weights)
        if number % every == 0 or number == models:
            validation.consider(learner.result())
        if report is not None:
            report(number, models)
        if validation.exhausted:
            break
    assert validation.best is not None
    return validation.best


class Learner:
    """Condensed features and links in the course of learning.

    Args:
        graph: with at least one training node.
        size: condensed nodes wanted.
        settings: of the condenser.
        generator: on the CPU.
    """

    def __init__(
        self, graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator
    ) -> None:
        self.settings = settings
        self.sampler = ClassSampler(graph, settings.class_budget, settings.neighbours, generator)
        labelled = self.sampler.sizes
        self.shares = (labelled / labelled.sum()).to(graph.x.dtype)
        self.y = condensed_labels(labelled, size)
        mean, deviation = moments(graph.x)
        self.x = gaussian_features(mean, deviation, self.y.numel(), generator).requires_grad_()
        self.feature_steps = torch.optim.Adam([self.x], lr=settings.feature_rate * float(deviation.mean()))
        self.links = None
        if settings.name != "gcond-x":
            self.links = link_network(graph.x.shape[1], settings.hidden, generator).to(graph.x.device)
            self.link_steps = torch.optim.Adam(self.links.parameters(), lr=settings.adjacency_rate)
        self.matched = 0

    def match(self, weights: Weights) -> None:
        """One step of the features or, when it is their turn, of the links.

        Raises:
            DivergenceError: the distance of gradients is not finite.
        """
        with torch.no_grad():
            real = class_gradients(weights, self.sampler.batch())
        found = class_gradients(weights, self._batch(self.x))
        apart = gradient_distance(real, found, self.settings.distance, self.shares)
        if not bool(torch.isfinite(apart)):
            raise DivergenceError(
                "condensation diverged: lower condenser.feature-rate, or scale the features down"
            )
        settings = self.settings
        turn = self.matched % (settings.feature_steps + settings.adjacency_steps)
        stepper = (
            self.link_steps
            if self.links is not None and turn >= settings.feature_steps
            else self.feature_steps
        )
        # The other part gets derivatives, too, which must not stay until its turn.
        self.feature_steps.zero_grad()
        if self.links is not None:
            self.link_steps.zero_grad()
        apart.backward()
        stepper.step()
        self.matched += 1

    @torch.no_grad()
    def batch(self) -> Batch:
        """The condensed nodes as they stand."""
        return self._batch(self.x.detach())

    @torch.no_grad()
    def result(self) -> Condensed:
        """The condensed graph as it stands, weak links removed."""
        x = self.x.detach().clone()
        if self.links is None:
            return Condensed.without_links(x, self.y, copies=False)
        edge_index, edge_weight = listed(thresholded(self.links(x), self.settings.threshold))
        return Condensed(x, self.y, edge_index, edge_weight, copies=False)

    def _batch(self, x: Float[Tensor, "core dim"]) -> Batch:
        if self.links is None:
            return Batch(x, torch.eye(x.shape[0], device=x.device, dtype=x.dtype), self.y)
        adjacency = normalised_links(self.links(x))
        return Batch(adjacency @ x, adjacency, self.y)
