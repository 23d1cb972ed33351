"""Condensation by gradient matching: GCond, and its variant without links.

GCond (Jin et al., 2022) learns features X' and links A' = g(X') such that a model gets the same gradients from the
condensed graph as from the real one, at several points of its training and for many initial models. The
variant has no links.
"""

from __future__ import annotations

import torch

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.synthetic.sampling import ClassSampler
from fedtag.client.condense.synthetic.validation import Validation
from fedtag.common.graph import Graph
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.adjacency import link_network
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.fitting import fitted
from fedtag.common.synthetic.gradients import Batch, Weights, class_gradients, initial_weights
from fedtag.common.synthetic.initial import gaussian_features, moments
from fedtag.common.synthetic.labels import condensed_labels
from fedtag.common.synthetic.learner import Learner, Pace


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Match gradients until validation finds nothing better; arguments as of `condense`."""
    return matched(graph, size, settings, generator, report, settings.outer_loops, settings.inner_loops)


def without_links(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """The same for features alone; arguments as of `condense`."""
    models, points = settings.outer_loops, settings.inner_loops
    return matched(graph, size, settings, generator, report, models, points, linked=False)


def matched(
    graph: Graph,
    size: int,
    settings: CondenserConfig,
    generator: torch.Generator,
    report: Report | None,
    models: int,
    points: int,
    linked: bool = True,
) -> Condensed:
    """Match gradients of some models at some points of their training.

    Args:
        graph, size, settings, generator, report: as of `condense`.
        models: fresh ones, at least 1.
        points: of each, the first before any training; at least 1.
        linked: whether condensed nodes have links, which are learned with them.
    """
    every = max(1, settings.validate_every * settings.inner_loops // points)
    learner = LocalLearner(graph, size, settings, generator, linked)
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


class LocalLearner:
    """A condensed graph in the course of learning from the gradients of a client's own graph.

    Args:
        graph: with at least one training node.
        size: condensed nodes wanted.
        settings: of the condenser.
        generator: on the CPU.
        linked: whether condensed nodes have links.
    """

    def __init__(
        self, graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, linked: bool
    ) -> None:
        self.threshold = settings.threshold
        self.sampler = ClassSampler(graph, settings.class_budget, settings.neighbours, generator)
        labelled = self.sampler.sizes
        self.shares = (labelled / labelled.sum()).to(graph.x.dtype)
        y = condensed_labels(labelled, size)
        mean, deviation = moments(graph.x)
        x = gaussian_features(mean, deviation, y.numel(), generator)
        links = None
        if linked:
            links = link_network(graph.x.shape[1], settings.hidden, generator).to(graph.x.device)
        pace = Pace(
            settings.distance,
            settings.feature_steps,
            settings.adjacency_steps,
            settings.feature_rate * float(deviation.mean()),
            settings.adjacency_rate,
        )
        self.learner = Learner(x, y, links, pace)

    def match(self, weights: Weights) -> None:
        """One step of the features or, when it is their turn, of the links.

        Raises:
            DivergenceError: the distance of gradients is not finite.
        """
        with torch.no_grad():
            real = class_gradients(weights, self.sampler.batch())
        self.learner.match(weights, real, self.shares)

    def batch(self) -> Batch:
        """The condensed nodes as they stand."""
        return self.learner.batch()

    def result(self) -> Condensed:
        """The condensed graph as it stands, weak links removed."""
        return self.learner.result(self.threshold)
