"""A received model fitted to a client's own graph, as far as its validation nodes find it better."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from fedtag.client.methods.fedgc.preparation import Prepared
from fedtag.client.train.optimisation import optimiser
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import Parameters, load_parameters, parameters_of
from fedtag.common.randomness import torch_generator

if TYPE_CHECKING:
    from fedtag.client.context.session import Session


def fine_tune(session: Session, model: NodeClassifier, prepared: Prepared, round_number: int) -> None:
    """Some steps of Adam on training nodes, in place; the model of the best step on validation nodes stays.

    The received model is one of those. The better accuracy decides, then the lower cross-entropy, then the fewer
    steps. Without validation nodes the last step stands; without training nodes nothing moves.

    Args:
        session: of the client.
        model: changed in place.
        prepared: whose features are read.
        round_number: of dropout.
    """
    settings, graph, adjacency = (
        session.config.own(FedGCConfig),
        session.training_graph,
        session.training_adjacency,
    )
    labels = graph.y[graph.train_mask]
    if not labels.numel():
        return
    judges = session.graph.val_mask
    chooses = bool(judges.any())
    generator = torch_generator(
        session.config.seed, round_number, session.site.name, "fine-tuning", device=session.device
    )
    stepper = optimiser(model.parameters(), "adam", settings.fine_tune_rate, 0.0, settings.weight_decay)
    best: tuple[float, float] | None = None
    found: Parameters = {}
    with session.timed("fine-tune"):
        for step in range(settings.fine_tune_steps + 1):
            if step:
                stepper.zero_grad(set_to_none=True)
                logits = model(prepared.x, adjacency, generator)
                functional.cross_entropy(logits[graph.train_mask], labels).backward()
                stepper.step()
            if chooses:
                score = judged(session, model, prepared)
                if best is None or score > best:
                    best, found = score, parameters_of(model)
    if chooses:
        load_parameters(model, found)


@torch.no_grad()
def judged(session: Session, model: NodeClassifier, prepared: Prepared) -> tuple[float, float]:
    """Accuracy on the validation nodes, and minus the cross-entropy there."""
    graph = session.graph
    logits = model(prepared.x, session.adjacency)[graph.val_mask]
    labels = graph.y[graph.val_mask]
    accuracy = (logits.argmax(1) == labels).double().mean()
    return float(accuracy), -float(functional.cross_entropy(logits, labels))
