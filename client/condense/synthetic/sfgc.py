"""SFGC (Zheng et al., 2023): features without links that lead a model along the way it takes on the real graph."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.condense.condenser import Report
from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.condense.synthetic.validation import Validation
from fedtag.common.errors import DivergenceError
from fedtag.common.graph import Graph
from fedtag.common.numerics.optimisers import Adam
from fedtag.common.settings.sections import CondenserConfig
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.gradients import Batch, Weights, initial_weights, mean_gradients
from fedtag.common.synthetic.initial import gaussian_features, moments
from fedtag.common.synthetic.labels import condensed_labels


def condensed(
    graph: Graph, size: int, settings: CondenserConfig, generator: torch.Generator, report: Report | None
) -> Condensed:
    """Match trajectories until validation finds nothing better; arguments as of `condense`.

    Experts walk on the real graph; in each step of the condensed features a student starts at a point of an
    expert's way, and after as many steps on the condensed nodes should be where the expert is then.
    """
    real = whole_batch(graph.x, graph.adjacency(), graph.train_mask, graph.y)
    # A step of size 1 / mean ‖Â x‖² neither crawls nor overshoots, whatever the features' scale.
    rate = settings.expert_rate / float(real.propagated.square().sum(1).mean().clamp_min(1e-12))
    labelled = torch.bincount(graph.y[graph.train_mask], minlength=graph.num_classes)
    y = condensed_labels(labelled, size)
    mean, deviation = moments(graph.x)
    x = gaussian_features(mean, deviation, y.numel(), generator).requires_grad_()
    stepper = Adam([x], lr=settings.feature_rate * float(deviation.mean()), fused=True)
    validation = Validation(graph, settings, generator)
    validation.consider(Condensed.without_links(x.detach().clone(), y, copies=False))
    total = settings.outer_loops * settings.inner_loops
    every = settings.validate_every * settings.inner_loops
    span = min(settings.expert_span, settings.expert_steps)
    trajectories = [
        trajectory(
            initial_weights(
                "gcn",
                graph.x.shape[1],
                settings.hidden,
                graph.num_classes,
                generator,
                graph.x.device,
            ),
            real,
            settings.expert_steps,
            rate,
        )
        for _ in range(settings.experts)
    ]
    identity = torch.eye(y.numel(), device=x.device, dtype=x.dtype)
    for number in range(1, total + 1):
        way = trajectories[int(torch.randint(len(trajectories), (), generator=generator))]
        begin = int(torch.randint(settings.expert_steps - span + 1, (), generator=generator))
        student = walked(way[begin], Batch(x, identity, y), span, rate)
        apart = relative_distance(student, way[begin], way[begin + span])
        if not bool(torch.isfinite(apart)):
            raise DivergenceError(
                "condensation diverged: lower condenser.expert-rate or condenser.feature-rate"
            )
        stepper.zero_grad()
        apart.backward()
        stepper.step()
        if number % every == 0 or number == total:
            validation.consider(Condensed.without_links(x.detach().clone(), y, copies=False))
        if report is not None:
            report(number, total)
        if validation.exhausted:
            break
    assert validation.best is not None
    return validation.best


def walked(weights: Weights, batch: Batch, steps: int, rate: float) -> Weights:
    """Weights after some steps of plain gradient descent, differentiable by what the batch is made of.

    Args:
        weights: to begin with.
        batch: of every step.
        steps: at least 0.
        rate: step size, above 0.
    """
    for _ in range(steps):
        gradients = mean_gradients(weights, batch)
        weights = tuple(w - rate * gradient for w, gradient in zip(weights, gradients, strict=True))
    return weights


@torch.no_grad()
def trajectory(weights: Weights, batch: Batch, steps: int, rate: float) -> list[Weights]:
    """The weights before the first step of gradient descent and after every one of them."""
    way = [weights]
    for _ in range(steps):
        way.append(walked(way[-1], batch, 1, rate))
    return way


def relative_distance(student: Weights, start: Weights, goal: Weights) -> Float[Tensor, ""]:
    """‖θ̂ − θ_goal‖² / ‖θ_start − θ_goal‖² over all weights (Cazenavette et al., 2022, Eq. 2)."""
    apart = sum(((a - b) ** 2).sum() for a, b in zip(student, goal, strict=True))
    whole = sum(((a - b) ** 2).sum() for a, b in zip(start, goal, strict=True))
    return torch.as_tensor(apart) / torch.as_tensor(whole).clamp_min(1e-12)
