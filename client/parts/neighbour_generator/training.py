"""Local training of the generator, and the client's graph mended by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from fedtag.client.parts.neighbour_generator.impairment import impaired
from fedtag.client.parts.neighbour_generator.losses import generator_loss
from fedtag.client.parts.neighbour_generator.mending import mended
from fedtag.client.train.optimisation import Training, clock_limit, optimise, optimiser
from fedtag.common.graph import Graph
from fedtag.common.models.parameters import Parameters, load_parameters, parameters_of
from fedtag.common.parts.neighbour_generator.model import NeighbourGenerator, initial_neighbour_generator
from fedtag.common.parts.neighbour_generator.settings import NeighbourGeneratorConfig
from fedtag.common.randomness import torch_generator

if TYPE_CHECKING:
    from fedtag.client.context.session import Session

RATE = 0.01
"""Step size of Adam on the generator."""


def fresh_generator(session: Session) -> NeighbourGenerator:
    """The run's initial generator on the session's device."""
    config, dimension = session.config, session.local_graph.x.shape[1]
    return initial_neighbour_generator(dimension, config.model.hidden, config.seed).to(session.device)


def train_generator(
    session: Session, model: NeighbourGenerator, exchange: int, allowed: float | None = None
) -> Training:
    """`train.epochs` steps of Adam on a newly impaired graph, in place.

    Neither labels nor, where training is inductive, test nodes take any part.

    Args:
        session: of the client.
        model: the received generator.
        exchange: decides which nodes are hidden, and the noise.
        allowed: seconds after which no further step begins; None: as long as it takes.
    """
    config, until, graph = session.config, clock_limit(allowed), session.seen_graph
    purpose = (exchange, session.site.name)
    hiding = torch_generator(config.seed, *purpose, "hidden nodes")
    noise = torch_generator(config.seed, *purpose, "neighbours' noise", device=session.device)
    eligible = ~graph.test_mask if config.train.inductive else graph.test_mask | ~graph.test_mask
    with session.timed("generator"):
        task = impaired(graph, config.own(NeighbourGeneratorConfig).hidden, eligible, hiding)
        stepper = optimiser(model.parameters(), "adam", RATE, 0.0, 0.0)
        return optimise(
            model,
            lambda: generator_loss(model, task, config.own(NeighbourGeneratorConfig).most, noise),
            stepper,
            config.train.epochs,
            until=until,
        )


def generator_of_its_own(session: Session) -> Parameters:
    """A generator that a client trains alone, as long as a federation would train one together."""
    model = fresh_generator(session)
    for exchange in range(1, session.config.own(NeighbourGeneratorConfig).rounds + 1):
        train_generator(session, model, exchange)
    return parameters_of(model)


def mended_graph(session: Session, generator: Mapping[str, Tensor]) -> Graph:
    """The session's graph with the neighbours that a generator gives it, the same ones whenever it is asked.

    Args:
        session: of the client.
        generator: parameters.
    """
    config, model = session.config, fresh_generator(session)
    load_parameters(model, generator)
    noise = torch_generator(config.seed, session.site.name, "generated neighbours", device=session.device)
    with session.timed("mend"):
        return mended(
            session.local_graph,
            session.seen_graph,
            model,
            config.own(NeighbourGeneratorConfig).most,
            session.data.directed,
            noise,
        )
