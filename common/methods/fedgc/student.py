"""A model that is trained on a condensed graph, as whoever gets the graph does."""

from __future__ import annotations

import torch
from torch.nn import functional

from fedtag.common.errors import DivergenceError
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.gradients import limit_gradient
from fedtag.common.numerics.optimisers import Adam
from fedtag.common.randomness import torch_generator
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.synthetic.condensed import Condensed


def student(
    condensed: Condensed,
    settings: RunSettings,
    classes: int,
    steps: int,
    rate: float,
    weight_decay: float,
    seed: int,
) -> NodeClassifier:
    """A fresh model after some steps of Adam on the mean cross-entropy of all condensed nodes.

    Args:
        condensed: with at least one node.
        settings: of the run, whose backbone it is.
        classes: C.
        steps: at least 0.
        rate: step size, above 0.
        weight_decay: L2 penalty, at least 0.
        seed: of initial values and dropout.

    Raises:
        DivergenceError: the loss is not finite.
    """
    model = initial_backbone(settings, condensed.x.shape[1], classes, seed).to(condensed.x.device)
    generator = torch_generator(seed, "student's dropout", device=condensed.x.device)
    adam = Adam(model.parameters(), lr=rate, weight_decay=weight_decay, fused=True)
    for _ in range(steps):
        adam.zero_grad()
        loss = functional.cross_entropy(model(condensed.x, condensed.adjacency, generator), condensed.y)
        if not bool(torch.isfinite(loss)):
            raise DivergenceError(
                f"training on the condensed graph diverged (the loss is {float(loss.detach())}): "
                "lower fedgc.model-rate, its step size"
            )
        loss.backward()
        limit_gradient(model)
        adam.step()
    return model
