"""Training of a plain backbone, and its scores on the full local graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedtag.client.context.session import Session
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import (
    Training,
    clock_limit,
    local_epochs,
    optimise,
    optimiser,
    scheduled_rate,
)
from fedtag.client.train.scoring import score_tensors, subset_tallies
from fedtag.client.train.statistics import client_statistics, validation_accuracy
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.randomness import torch_generator


def fresh_backbone(session: Session) -> NodeClassifier:
    """The run's initial backbone on the session's device."""
    graph, config = session.graph, session.config
    return initial_backbone(config.model, graph.x.shape[1], graph.num_classes, config.seed).to(session.device)


def local_examples(session: Session) -> Examples:
    """The client's own graph, as its training may see it."""
    return Examples.of_graph(session.training_graph, session.training_adjacency)


def train_backbone(
    session: Session,
    model: NodeClassifier,
    examples: Examples,
    round_number: int,
    allowed: float | None = None,
) -> Training | None:
    """Local epochs of cross-entropy on labelled nodes, in place; None without any.

    Args:
        session: of the client.
        model: the received one.
        examples: to train on.
        round_number: of the step size and of dropout.
        allowed: seconds after which no further step begins; None: as long as it takes.
    """
    until = clock_limit(allowed)
    config = session.config.train
    if not bool(examples.mask.any()):
        return None
    generator = torch_generator(
        session.config.seed, round_number, session.site.name, "dropout", device=session.device
    )

    def loss() -> Tensor:
        return examples.loss(model(examples.x, examples.adjacency, generator))

    rate = scheduled_rate(
        config.learning_rate, config.schedule, config.final_rate, round_number, session.config.rounds
    )
    stepper = optimiser(model.parameters(), config.optimizer, rate, config.momentum, config.weight_decay)
    with session.timed("train"):
        accuracy = None
        if config.accuracy_threshold:
            graph = session.training_graph
            with torch.no_grad():
                accuracy = validation_accuracy(model(graph.x, session.training_adjacency), graph)
        epochs = local_epochs(config.epochs, config.extra_epochs, config.accuracy_threshold, accuracy)
        return optimise(model, loss, stepper, epochs, config.prox_mu, until)


def backbone_statistics(session: Session, model: NodeClassifier, round_number: int) -> dict[str, Any]:
    """What distribution-aware weights need to know of a client and its locally trained model."""
    with session.timed("statistics"), torch.no_grad():
        logits = model(session.training_graph.x, session.training_adjacency)
        return client_statistics(session, logits, round_number)


def score_backbone(session: Session, model: NodeClassifier, path: str) -> dict[str, Tensor]:
    """Counts of the model on the full local graph, under a name of the way of scoring."""
    with session.timed("score"), torch.no_grad():
        logits = model(session.graph.x, session.adjacency)
        return score_tensors(path, subset_tallies(logits, session.graph))


def predict_by_backbone(session: Session, released: ReleasedModel) -> Prediction:
    """What a released backbone says of every node; it selects no texts, so that there is no evidence."""
    model = load_released(fresh_backbone(session), released)
    with torch.no_grad():
        return Prediction(model(session.graph.x, session.adjacency))
