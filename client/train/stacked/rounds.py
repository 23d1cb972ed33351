"""One round of all clients at once: scores, local epochs, the mean of the updates; no step waits for the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from fedtag.client.train.optimisation import optimiser
from fedtag.client.train.stacked.counts import grouped_counts
from fedtag.client.train.stacked.graphs import OrderedSums
from fedtag.client.train.stacked.masks import ClientMasks
from fedtag.client.train.stacked.parameters import logits_of_all, logits_of_one
from fedtag.client.train.stacked.shares import Together
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.gradients import LARGEST
from fedtag.common.numerics.clipping import NORM_ERROR
from fedtag.common.numerics.scores import LOCAL
from fedtag.common.settings.train import TrainConfig

FEWEST = 3
"""Updates among which none is cut because it is longer than the others."""
Tensors = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is decided of a round before it begins, on the device.

    Args:
        number: of the round.
        rate: step size of local training.
        trains: which clients do.
        weights: of their updates; 0 for the others.
    """

    number: Int[Tensor, ""]
    rate: Float[Tensor, ""]
    trains: Bool[Tensor, " clients"]
    weights: Float[Tensor, " clients"]


class StackedRounds:
    """Rounds in which all clients train one backbone on the same examples every time.

    Args:
        together: what the sites bring.
        model: whose code computes.
        train: settings of local training.
        seed: of the run.
        averaged: whether updates move one model; else every client goes on with its own.
        norm_factor: of `aggregation.norm-factor`.
        local: whether locally trained models are scored as well.
        path: the way of scoring of received models.
    """

    def __init__(
        self,
        together: Together,
        model: NodeClassifier,
        train: TrainConfig,
        seed: int,
        averaged: bool,
        norm_factor: float,
        local: bool,
        path: str,
    ) -> None:
        self.together, self.model, self.train, self.averaged = together, model, train, averaged
        self.norm_factor, self.local, self.path = norm_factor, local, path
        self.device, self.clients = together.trained.x.device, len(together.names)
        tables = {id(table): table for table in (together.trained, together.scored)}
        self.sums = OrderedSums([table.adjacency for table in tables.values()])
        zero = torch.zeros((), dtype=torch.long, device=self.device)
        self.masks = ClientMasks(seed, together.names, together.trained.rows, zero)

    def carry_out(self, plan: Plan, model: Tensors, scored: Mapping[str, Tensor] | None) -> Tensors:
        """A round, which moves the model, or those of all clients, in place.

        Args:
            plan: of the round.
            model: parameters by name: of the model that all receive, or of each client's along the first dimension.
            scored: the parameters that are scored before; None where no scores are due.

        Returns:
            `scores/PATH/FIELD` for each client's validation nodes and then its test nodes; `loss` and `norm`, of each
            client its last loss and the length of its update; `cut`, how many times as long as the median one that was,
            where it was cut, else 0; `step/NAME`, the mean update, or `own/NAME`, what clients go on with.
        """
        found: Tensors = {}
        with self.sums:
            if scored is not None:
                with torch.no_grad():
                    found |= self._scores(self.path, scored, stacked=not self.averaged)
            start = {
                name: value.expand(self.clients, *value.shape) if self.averaged else value.clone()
                for name, value in model.items()
            }
            trained, found["loss"] = self._trained(plan, start)
            with torch.no_grad():
                if self.local:
                    found |= self._scores(LOCAL, trained, stacked=True)
                found |= self._moved(plan, model, start, trained)
        return found

    def score(self, model: Mapping[str, Tensor]) -> Tensors:
        """The scores alone."""
        with self.sums, torch.no_grad():
            return self._scores(self.path, model, stacked=not self.averaged)

    def _trained(self, plan: Plan, start: Tensors) -> tuple[Tensors, Float[Tensor, " clients"]]:
        train, together, table = self.train, self.together, self.together.trained
        values = {name: value.clone().requires_grad_() for name, value in start.items()}
        moved = list(values.values())
        # The rate is told on the device, where the optimiser does not look at it.
        stepper = optimiser(moved, train.optimizer, plan.rate, train.momentum, train.weight_decay)
        losses = torch.zeros(self.clients, device=self.device)
        self.masks.number = plan.number
        for epoch in range(train.epochs):
            self.masks.begin(epoch)
            logits = logits_of_all(self.model, values, table.x, table.adjacency, table.rows, self.masks)
            entropy = cross_entropy(logits, together.labels, reduction="none") * together.weights
            losses = entropy.view(self.clients, -1).sum(1)
            objective = losses.sum()
            if train.prox_mu:
                apart = sum(((value - start[name]) ** 2).sum() for name, value in values.items())
                objective = objective + train.prox_mu / 2 * apart
            gradients = torch.autograd.grad(objective, moved)
            for value, gradient in zip(moved, self._limited(gradients), strict=True):
                # Fused steps read both as they lie in memory.
                value.grad = gradient.contiguous()
            stepper.step()
        return {name: value.detach() for name, value in values.items()}, losses.detach()

    def _limited(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """`limit_gradient` for each client."""
        if not self.model.sums:
            return gradients
        norm = sum(one.flatten(1).square().sum(1) for one in gradients)
        factor = (LARGEST / (torch.as_tensor(norm).sqrt() + 1e-6)).clamp(max=1)
        return tuple(one * along(factor, one) for one in gradients)

    def _moved(self, plan: Plan, model: Tensors, start: Tensors, trained: Tensors) -> Tensors:
        updates = {name: trained[name] - start[name] for name in model}
        norm = torch.zeros(self.clients, dtype=torch.float64, device=self.device)
        for update in updates.values():
            norm = norm + update.flatten(1).double().square().sum(1)
        norm = norm.sqrt()
        if not self.averaged:
            for name, value in model.items():
                value.copy_(trained[name].where(along(plan.trains, value), start[name]))
            return {"norm": norm, "cut": torch.zeros_like(norm), **_named("own", model)}
        weighs = plan.weights > 0
        usual = _median(norm, weighs)
        long = weighs & (norm > self.norm_factor * usual) & (usual > 0) & (weighs.sum() >= FEWEST)
        cut = (norm / usual).where(long & bool(self.norm_factor), 0.0)
        steps = {}
        for name, update in updates.items():
            # As `clipped` has it, a whole rounding error below the bound.
            rounding = max(torch.finfo(update.dtype).eps, NORM_ERROR)
            scale = along((usual / norm * (1 - rounding)).where(cut > 0, 1.0), update)
            kept = (update.double() * scale).to(update.dtype).double().where(along(weighs, update), 0.0)
            steps[name] = (along(plan.weights, update) * kept).sum(0).to(update.dtype)
            model[name] += steps[name]
        return {"norm": norm, "cut": cut, **_named("step", steps)}

    def _scores(self, path: str, parameters: Mapping[str, Tensor], stacked: bool) -> Tensors:
        together, table = self.together, self.together.scored
        if stacked:
            logits = logits_of_all(self.model, parameters, table.x, table.adjacency, table.rows)
        else:
            logits = logits_of_one(self.model, parameters, table.x, table.adjacency)
        groups = 2 * self.clients
        counts = grouped_counts(
            logits[together.places], together.classes, together.groups, groups, path != LOCAL
        )
        return {
            f"scores/{path}/{field}": value.view(self.clients, 2, *value.shape[1:])
            for field, value in counts.items()
        }


def along(of_clients: Tensor, like: Tensor) -> Tensor:
    """A value of each client, to be combined with tensors that have the clients along the first dimension."""
    return of_clients.view(-1, *[1] * (like.dim() - 1))


def _median(values: Float[Tensor, " clients"], chosen: Bool[Tensor, " clients"]) -> Float[Tensor, ""]:
    """Of the chosen ones, at least one: of an even number the mean of the two in the middle."""
    order = values.where(chosen, torch.inf).sort().values
    count = chosen.sum()
    middle = torch.stack([(count - 1).clamp(min=0) // 2, count // 2])
    return order[middle.clamp(max=len(values) - 1)].mean()


def _named(section: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {f"{section}/{name}": value for name, value in tensors.items()}
