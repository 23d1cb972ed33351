"""Local training of the generator, and the client's graph mended by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.parts.neighbour_generator.impairment import impaired
from fedtag.client.parts.neighbour_generator.losses import generator_loss
from fedtag.client.parts.neighbour_generator.mending import mended
from fedtag.client.train.optimisation import Training, optimise, optimiser
from fedtag.common.graph import Graph
from fedtag.common.models.parameters import Parameters, load_parameters, parameters_of
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator, initial_neighbour_generator
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig

RATE = 0.01
"""Step size of Adam on the generator."""

Context = RunContext[Any]


def fresh_generator(data: SiteData, context: Context) -> NeighbourGenerator:
    """The run's initial generator on the site's device."""
    config, dimension = context.config, data.graph.x.shape[1]
    return initial_neighbour_generator(dimension, config.model.hidden, config.seed).to(data.device)


def train_generator(
    model: NeighbourGenerator, exchange: int, data: SiteData, context: Context, until: float | None = None
) -> Training:
    """`train.epochs` steps of Adam on a newly impaired graph, in place.

    Neither labels nor, where training is inductive, test nodes take any part.

    Args:
        model: the received generator.
        exchange: decides which nodes are hidden, and the noise.
        data: of the client.
        context: of the run.
        until: monotonic clock time after which no further step begins; None: as long as it takes.
    """
    config, graph, purpose = context.config, data.training.graph, (exchange, data.site.name)
    settings = config.own(NeighbourGeneratorConfig)
    hiding = context.generator(*purpose, "hidden nodes")
    noise = context.generator(*purpose, "neighbours' noise", device=data.device)
    eligible = ~graph.test_mask if config.train.inductive else graph.test_mask | ~graph.test_mask
    with context.timed("generator"):
        task = impaired(graph, settings.hidden, eligible, hiding)
        stepper = optimiser(model.parameters(), "adam", RATE, 0.0, 0.0)
        return optimise(
            model,
            lambda: generator_loss(model, task, settings.most, noise),
            stepper,
            config.train.epochs,
            until=until,
        )


def generator_of_its_own(data: SiteData, context: Context) -> Parameters:
    """A generator that a client trains alone, as long as a federation would train one together."""
    model = fresh_generator(data, context)
    for exchange in range(1, context.config.own(NeighbourGeneratorConfig).rounds + 1):
        train_generator(model, exchange, data, context)
    return parameters_of(model)


def mended_graph(generator: Mapping[str, Tensor], data: SiteData, context: Context) -> Graph:
    """The site's graph with the neighbours that a generator gives it, the same ones whenever it is asked.

    Args:
        generator: parameters.
        data: of the site.
        context: of the run.
    """
    model = fresh_generator(data, context)
    load_parameters(model, generator)
    noise = context.generator(data.site.name, "generated neighbours", device=data.device)
    most, directed = context.config.own(NeighbourGeneratorConfig).most, data.text_graph.directed
    with context.timed("mend"):
        return mended(data.graph, data.training.graph, model, most, directed, noise)
