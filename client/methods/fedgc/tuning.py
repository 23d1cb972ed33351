"""A received model fitted to a client's own graph, as far as its validation nodes find it better."""

from __future__ import annotations

import torch
from torch.nn import functional

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.fedgc.preparation import Prepared
from fedtag.client.train import passes
from fedtag.client.train.batches import Batching, in_batches
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import optimiser
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.gradients import limit_gradient
from fedtag.common.models.parameters import Parameters, load_parameters, parameters_of


def fine_tune(
    model: NodeClassifier,
    prepared: Prepared,
    round_number: int,
    batching: Batching,
    data: SiteData,
    context: RunContext[FedGCConfig],
) -> None:
    """Some steps of Adam on training nodes, or batches of them, in place; the best on validation nodes stays.

    The received model is one of those. The better accuracy decides, then the lower cross-entropy, then the fewer
    steps. Without validation nodes the last step stands; without training nodes nothing moves.

    Args:
        model: changed in place.
        prepared: whose features are read.
        round_number: of dropout.
        batching: of the client's graph.
        data: of the client.
        context: of the run.
    """
    settings, graph, adjacency = context.settings, data.training.graph, data.training.adjacency
    if not bool(graph.train_mask.any()):
        return
    judges = data.graph.val_mask
    chooses = bool(judges.any())
    generator = context.generator(round_number, data.site.name, "fine-tuning", device=data.device)
    loss, _ = in_batches(
        lambda one: lambda: one.loss(model(one.x, one.adjacency, generator)),
        model,
        Examples(prepared.x, adjacency, graph.y, graph.train_mask),
        # Each epoch has a step at least.
        max(settings.fine_tune_steps, 1),
        batching,
        data.device,
        context.generator(round_number, data.site.name, "fine-tuning batches"),
    )
    stepper = optimiser(model.parameters(), "adam", settings.fine_tune_rate, 0.0, settings.weight_decay)
    best: tuple[float, float] | None = None
    found: Parameters = {}
    with context.timed("fine-tune"):
        for step in range(settings.fine_tune_steps + 1):
            if step:
                stepper.zero_grad(set_to_none=True)
                loss().backward()
                limit_gradient(model)
                stepper.step()
            if chooses:
                score = judged(model, prepared, data, batching)
                if best is None or score > best:
                    best, found = score, parameters_of(model)
    if chooses:
        load_parameters(model, found)


@torch.no_grad()
def judged(
    model: NodeClassifier, prepared: Prepared, data: SiteData, batching: Batching
) -> tuple[float, float]:
    """Accuracy on the validation nodes, and minus the cross-entropy there."""
    graph = data.graph
    logits = passes.logits(model, prepared.x, data.adjacency, batching)[graph.val_mask]
    labels = graph.y[graph.val_mask]
    accuracy = (logits.argmax(1) == labels).double().mean()
    return float(accuracy), -float(functional.cross_entropy(logits, labels))
