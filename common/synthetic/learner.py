"""Condensed features and links in the course of learning, whoever provides the gradients that they are to match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.common.errors import DivergenceError
from fedtag.common.numerics.optimisers import Adam
from fedtag.common.synthetic.adjacency import LinkNetwork, listed, normalised_links, thresholded
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.gradients import Batch, Weights, class_gradients
from fedtag.common.synthetic.matching import Distance, gradient_distance

ADAM = ("step", "exp_avg", "exp_avg_sq")
"""What Adam knows of a parameter."""


@dataclass(frozen=True)
class Pace:
    """How a condensed graph is learned.

    Args:
        distance: between gradients.
        feature_steps: steps of the features before the turn of the links.
        link_steps: steps of the links before the turn of the features.
        feature_rate: step size of the features, in their own unit.
        link_rate: step size of the links' network.
    """

    distance: Distance
    feature_steps: int
    link_steps: int
    feature_rate: float
    link_rate: float


class Learner:
    """X' and A' = g(X'), moved by Adam towards given gradients; changed in place.

    Args:
        x: features to begin with.
        y: label of each condensed node.
        links: g; None for a graph without links.
        pace: of learning.
    """

    def __init__(
        self,
        x: Float[Tensor, "core dim"],
        y: Int[Tensor, " core"],
        links: LinkNetwork | None,
        pace: Pace,
    ) -> None:
        self.x = x.detach().clone().requires_grad_()
        self.y = y
        self.links = links
        self.pace = pace
        self.matched = 0
        self._feature_steps = Adam([self.x], lr=pace.feature_rate, fused=True)
        if links is not None:
            self._link_steps = Adam(links.parameters(), lr=pace.link_rate, fused=True)

    def match(
        self,
        weights: Weights,
        real: Sequence[Float[Tensor, "classes ..."]],
        shares: Float[Tensor, " classes"],
    ) -> float:
        """One step of the features or, when it is their turn, of the links.

        Args:
            weights: of the model whose gradients are compared.
            real: its gradients on the real graph, of every class.
            shares: weight of each class; 0 for those that are not matched.

        Returns:
            the distance before the step.

        Raises:
            DivergenceError: the distance is not finite.
        """
        found = class_gradients(weights, self._batch(self.x))
        apart = gradient_distance(real, found, self.pace.distance, shares)
        if not bool(torch.isfinite(apart)):
            raise DivergenceError(
                "condensation diverged: lower the feature-rate of its table of settings, or scale the features down"
            )
        turn = self.matched % (self.pace.feature_steps + self.pace.link_steps)
        stepper = self._feature_steps
        # The other part gets derivatives, too, which must not stay until its turn.
        self._feature_steps.zero_grad()
        if self.links is not None:
            self._link_steps.zero_grad()
            if turn >= self.pace.feature_steps:
                stepper = self._link_steps
        apart.backward()
        stepper.step()
        self.matched += 1
        return float(apart.detach())

    @torch.no_grad()
    def batch(self) -> Batch:
        """The condensed nodes as they stand."""
        return self._batch(self.x.detach())

    @torch.no_grad()
    def result(self, threshold: float) -> Condensed:
        """The condensed graph as it stands.

        Args:
            threshold: δ in [0, 1); links of at most this weight are left out.
        """
        x = self.x.detach().clone()
        if self.links is None:
            return Condensed.without_links(x, self.y, copies=False)
        edge_index, edge_weight = listed(thresholded(self.links(x), threshold))
        return Condensed(x, self.y, edge_index, edge_weight, copies=False)

    def tensors(self) -> dict[str, Tensor]:
        """All that is needed to go on, by name."""
        found = {"y": self.y, "matched": torch.tensor(self.matched)}
        for name, (parameter, stepper) in self._parameters().items():
            found[name] = parameter.detach().clone()
            kept = stepper.state.get(parameter, {})
            found |= {f"{name}/{part}": kept[part].clone() for part in ADAM if part in kept}
        return found

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from where `tensors` were taken."""
        self.matched = int(tensors["matched"])
        for name, (parameter, stepper) in self._parameters().items():
            with torch.no_grad():
                parameter.copy_(tensors[name])
            kept = {part: tensors[f"{name}/{part}"].clone() for part in ADAM if f"{name}/{part}" in tensors}
            if kept:
                stepper.state[parameter] = kept

    def _parameters(self) -> dict[str, tuple[Tensor, Adam]]:
        """What is learned, with its optimiser."""
        links = {} if self.links is None else dict(self.links.named_parameters())
        own = {f"links.{name}": (value, self._link_steps) for name, value in links.items()}
        return {"x": (self.x, self._feature_steps), **own}

    def _batch(self, x: Float[Tensor, "core dim"]) -> Batch:
        if self.links is None:
            return Batch(x, torch.eye(x.shape[0], device=x.device, dtype=x.dtype), self.y)
        adjacency = normalised_links(self.links(x))
        return Batch(adjacency @ x, adjacency, self.y)
