"""Local work of DA-DFGAS: the bi-level search on the supernet, and the training of a network cut out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedtag.client.methods.da_dfgas.architecture_search import ArchitectureSteps, search_loss
from fedtag.client.methods.da_dfgas.halves import Halves, halves
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import Training, clock_limit, optimise, optimiser, scheduled_rate
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.stages import Stages
from fedtag.common.randomness import torch_generator

if TYPE_CHECKING:
    from fedtag.client.context.session import Session


def validation_halves(session: Session) -> Halves:
    """The halves of the site's validation nodes, the same in every round."""
    generator = torch_generator(session.config.seed, session.site.name, "validation halves")
    return session.kept("validation halves", lambda: halves(session.graph, generator))


def train_network(
    session: Session,
    model: nn.Module,
    examples: Examples,
    stages: Stages,
    round_number: int,
    longer: bool,
    allowed: float | None,
) -> Training:
    """Local epochs from the model as it stands, in place.

    Each epoch is one step of SGD (or of train.optimizer) on the weights, with the proximal term. In a supernet one
    step of the architecture on half A comes before it, if there is a half A: on the client's own graph, whatever the
    weights are trained on, since the architecture is to do well there.

    Args:
        session: of the client.
        model: a supernet, or the network of an architecture.
        examples: of the steps on the weights, with a label to learn.
        stages: of the run.
        round_number: of the step size, whose schedule each stage begins anew, and of dropout.
        longer: whether the further epochs of clients that lag behind are taken, too.
        allowed: seconds after which no further step begins; None: as long as it takes.
    """
    config, until = session.config, clock_limit(allowed)
    graph, adjacency = session.training_graph, session.training_adjacency
    generator = torch_generator(
        config.seed, round_number, session.site.name, "dropout", device=session.device
    )

    def loss() -> Tensor:
        return examples.loss(model(examples.x, examples.adjacency, generator))

    searched = validation_halves(session).searched

    weights = [value for name, value in model.named_parameters() if not is_architecture(name)]
    architecture = [value for name, value in model.named_parameters() if is_architecture(name)]
    for value in architecture:
        value.requires_grad_(False)
    before = None
    if architecture and bool(searched.any()):
        before = ArchitectureSteps(
            weights,
            architecture,
            lambda: search_loss(model(graph.x, adjacency), graph.y, searched),
            config.own(DaDfgasConfig).architecture_rate,
        )
    train = config.train
    number, rounds = stages.place(round_number)
    rate = scheduled_rate(train.learning_rate, train.schedule, train.final_rate, number, rounds)
    stepper = optimiser(weights, train.optimizer, rate, train.momentum, train.weight_decay)
    epochs = train.epochs + (train.extra_epochs if longer else 0)
    with session.timed("train"):
        return optimise(model, loss, stepper, epochs, train.prox_mu, until, before)


@torch.no_grad()
def logits_of(model: nn.Module, session: Session, training: bool = False) -> Tensor:
    """What a model says of every node of the full local graph, or of the one that training sees."""
    graph = session.training_graph if training else session.graph
    return model(graph.x, session.training_adjacency if training else session.adjacency)
