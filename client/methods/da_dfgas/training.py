"""Local work of DA-DFGAS: the bi-level search on the supernet, and the training of a network cut out of it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.da_dfgas.architecture_search import ArchitectureSteps, search_loss
from fedtag.client.methods.da_dfgas.halves import Halves, halves
from fedtag.client.train import passes
from fedtag.client.train.batches import Batching, in_batches
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import Training, optimise, optimiser, scheduled_rate
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.stages import Stages

Context = RunContext[DaDfgasConfig]


def validation_halves(data: SiteData, context: Context) -> Halves:
    """The halves of the site's validation nodes, the same in every round."""
    generator = context.generator(data.site.name, "validation halves")
    return context.cached(data, "validation halves", lambda: halves(data.graph, generator))


def train_network(
    model: NodeClassifier,
    examples: Examples,
    stages: Stages,
    longer: bool,
    batching: Batching,
    data: SiteData,
    context: Context,
) -> Training:
    """Local epochs from the model as it stands, in place.

    Each epoch is one step of SGD (or of train.optimizer) on the weights, with the proximal term, or one for each batch.
    In a supernet one step of the architecture on half A, or a batch of it, comes before each, if there is a half A: on
    the client's own graph, whatever the weights are trained on, since the architecture is to do well there.

    Args:
        model: a supernet, or the network of an architecture.
        examples: of the steps on the weights, with a label to learn.
        stages: of the run, each of which begins the schedule of the step size anew.
        longer: whether the further epochs of clients that lag behind are taken, too.
        batching: of the client's graph.
        data: of the client.
        context: of the round.
    """
    train, until = context.config.train, context.training_deadline()
    seen = data.training
    generator = context.generator(context.round, data.site.name, "dropout", device=data.device)

    def loss(one: Examples) -> Callable[[], Tensor]:
        return lambda: one.loss(model(one.x, one.adjacency, generator))

    def search(one: Examples) -> Callable[[], Tensor]:
        return lambda: search_loss(model(one.x, one.adjacency), one.y, one.mask)

    def parts(
        of: Callable[[Examples], Callable[[], Tensor]], one: Examples, epochs: int, purpose: str
    ) -> tuple[Callable[[], Tensor], int]:
        drawn = context.generator(context.round, data.site.name, purpose)
        return in_batches(of, model, one, epochs, batching, data.device, drawn)

    epochs = train.epochs + (train.extra_epochs if longer else 0)
    step, steps = parts(loss, examples, epochs, "batches")
    searched = validation_halves(data, context).searched
    weights = [value for name, value in model.named_parameters() if not is_architecture(name)]
    architecture = [value for name, value in model.named_parameters() if is_architecture(name)]
    for value in architecture:
        value.requires_grad_(False)
    before = None
    if architecture and bool(searched.any()):
        half = Examples(seen.graph.x, seen.adjacency, seen.graph.y, searched)
        before = ArchitectureSteps(
            weights,
            architecture,
            parts(search, half, steps, "searched batches")[0],
            context.settings.architecture_rate,
        )
    number, rounds = stages.place(context.round)
    rate = scheduled_rate(train.learning_rate, train.schedule, train.final_rate, number, rounds)
    stepper = optimiser(weights, train.optimizer, rate, train.momentum, train.weight_decay)
    with context.timed("train"):
        return optimise(model, step, stepper, steps, train.prox_mu, until, before)


@torch.no_grad()
def logits_of(model: NodeClassifier, data: SiteData, batching: Batching) -> Tensor:
    """What a model says of every node."""
    return passes.logits(model, data.graph.x, data.adjacency, batching)
