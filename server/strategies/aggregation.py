"""The four independent choices of aggregation, put together: weights, normalisation, rule, server optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.models.parameters import moved_by_steps
from fedtag.common.numerics.clipping import clipped, l2_norm
from fedtag.common.numerics.noise import RandomBytes, gaussian
from fedtag.common.numerics.robust_rules import GROUP_MEDIAN, GROUP_RULES
from fedtag.common.numerics.shares import capped_shares
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate
from fedtag.server.strategies.mean import weighted_mean
from fedtag.server.strategies.normalisation import believable, fednova, largest_normaliser, scaled
from fedtag.server.strategies.optimisers import server_step
from fedtag.server.strategies.rules import combine_by_rule
from fedtag.server.strategies.weights import ClientStatistics, client_weights

Learned = Callable[[Mapping[str, int]], Mapping[str, int]]
Updates = Mapping[str, Mapping[str, Tensor]]
NOTHING = Aggregate({}, {}, {})


class Aggregation:
    """How the updates of a phase become a step of the global model, from settings alone.

    Args:
        config: of the run; combinations that make no sense were refused when it was made.
        entropy: source of the noise of central differential privacy.
    """

    def __init__(self, config: RunConfig, entropy: RandomBytes) -> None:
        self.config = config
        self.entropy = entropy

    @property
    def similarity_scale(self) -> float:
        """τ of distribution-aware weights (Eq. 9)."""
        return self.config.aggregation.similarity_scale

    def weights(
        self, phase: Phase, train_nodes: Mapping[str, int], statistics: Mapping[str, ClientStatistics]
    ) -> dict[str, float]:
        """w_i of those who contribute, sum 1; empty if nobody has a training node.

        In a step none is above `aggregation.max-share`; sums over nodes are sums only if every node counts.
        """
        settings = self.config.aggregation
        weights = client_weights(settings.weights, train_nodes, statistics, self.similarity_scale)
        return capped_shares(weights, settings.max_share) if phase.gathers == "step" else weights

    def bounded(self, updates: Updates, normalisers: Mapping[str, float]) -> tuple[Updates, dict[str, float]]:
        """Updates none of which is much longer than the others, and how many times as long as the median those are.

        One beyond `aggregation.norm-factor` times the median norm is cut to the median, so that nobody gains by being
        longer still. Where updates are divided by their effective steps it is about what they are then. Differential
        privacy has a bound of its own.

        Args:
            updates: Δ_i by client, of those that weigh something.
            normalisers: a_i by client.

        Returns:
            The updates, and ‖Δ_i‖ over the median norm of those that were cut.
        """
        settings = self.config.aggregation
        if not settings.norm_factor or self.config.privacy.dp.mode != "off" or len(updates) < 3:
            return updates, {}
        normalised = settings.normalise == "fednova"
        units = {client: normalisers.get(client, 0.0) if normalised else 1.0 for client in updates}
        norms = {client: l2_norm(updates[client]) / unit for client, unit in units.items() if unit > 0}
        usual, cut = self._long(norms)
        kept = {
            client: clipped(update, usual * units[client])[0] if client in cut else update
            for client, update in updates.items()
        }
        return kept, cut

    def combined(
        self,
        updates: Updates,
        weights: Mapping[str, float],
        normalisers: Mapping[str, float],
        nodes: Mapping[str, int] = MappingProxyType({}),
        learned: Learned = dict,
    ) -> tuple[dict[str, Tensor], Mapping[str, float]]:
        """One update from those that came in clear, and the weights that it took.

        Args:
            updates: Δ_i by client.
            weights: of the clients whose update counts, sum 1.
            normalisers: a_i by client.
            nodes: numbers of them by client, of all that ever stated any; a_i is bounded by them where clients train in
                batches.
            learned: from how many nodes each may learn, by how many all have.

        Returns:
            The combined update, before the server optimiser; nothing without contributors.
        """
        settings, dp = self.config.aggregation, self.config.privacy.dp
        if not weights:
            return {}, {}
        if dp.mode == "central":
            return self._private_mean({client: updates[client] for client in weights}), weights
        kept: Updates = {client: updates[client] for client in weights}
        if settings.normalise == "fednova":
            train, most, believed = self.config.train, dict[str, float](), dict[str, float]()
            for bound, said in ((most, learned(nodes)), (believed, learned(believable(nodes)))):
                bound |= {client: largest_normaliser(train, said.get(client, 0)) for client in weights}
            plan = fednova(weights, normalisers, most, believed)
            weights, kept = plan.weights, scaled(kept, plan.factors)
            if not weights:
                return {}, {}
        if settings.rule == "mean":
            return weighted_mean(kept, weights), weights
        step = combine_by_rule(settings.rule, kept, settings.hostile, settings.trim)
        if settings.rule == "krum":
            # It takes one client's update as it is.
            chosen = [
                c for c, one in sorted(kept.items()) if all(one[name].equal(step[name]) for name in step)
            ]
            return step, {chosen[0]: 1.0} if chosen else weights
        return step, dict.fromkeys(weights, 1 / len(weights))

    def outlying(self, means: Updates) -> dict[str, float]:
        """Groups whose mean update is too long to be compared with the others', and by how many times the median one.

        A median over few groups leans towards whatever one of them sends beyond all others; the others agree better.

        Args:
            means: by group.
        """
        if not self.config.aggregation.norm_factor or len(means) < 3:
            return {}
        return self._long({group: l2_norm(mean) for group, mean in means.items()})[1]

    def _long(self, norms: Mapping[str, float]) -> tuple[float, dict[str, float]]:
        """The median norm, and what is longer than it by `aggregation.norm-factor`, in times."""
        usual, factor = (median(norms.values()) if norms else 0.0), self.config.aggregation.norm_factor
        return usual, {name: norm / usual for name, norm in norms.items() if norm > factor * usual > 0}

    def of_groups(self, means: Updates) -> dict[str, Tensor]:
        """One update from the mean updates of groups, by `aggregation.rule`.

        The trimmed mean cuts off at each end as many groups as may be hostile, or their share `aggregation.trim` where
        that is more; of two groups or one there is the mean.

        Args:
            means: by group.
        """
        settings, count = self.config.aggregation, len(means)
        if count < 3:
            return weighted_mean(means, dict.fromkeys(means, 1 / count))
        if settings.rule == GROUP_MEDIAN:
            return combine_by_rule("median", means, 0, 0.0)
        cut = min(max(settings.hostile, 1, int(settings.trim * count)), (count - 1) // 2)
        # Flower rounds share · n down.
        return combine_by_rule("trimmed-mean", means, 0, (cut + 0.25) / count)

    def moved(
        self,
        model: Mapping[str, Tensor],
        step: Mapping[str, Tensor],
        weights: Mapping[str, float],
        memory: Mapping[str, Tensor],
    ) -> tuple[Aggregate, Mapping[str, Tensor]]:
        """The server optimiser's step from the global model, and what it must know at the next one."""
        if not step:
            return NOTHING, memory
        # A tensor that no client used stays where it is.
        step = {
            name: step[name] if name in step else torch.zeros_like(value) for name, value in model.items()
        }
        settings = self.config.aggregation
        after, kept = server_step(
            settings.server_optimiser,
            model,
            step,
            memory,
            settings.server_rate,
            settings.server_momentum,
            settings.server_second_moment,
            settings.server_adaptivity,
        )
        return Aggregate(step, after, weights), kept

    def _private_mean(self, updates: Updates) -> dict[str, Tensor]:
        """(Σ clip(Δ_i) + N(0, σ²S²)) / N, N being the clients that the run is set up for, whoever came."""
        dp = self.config.privacy.dp
        total = weighted_mean(
            {client: clipped(update, dp.clip)[0] for client, update in updates.items()},
            dict.fromkeys(updates, 1.0),
        )
        noise = gaussian(total, dp.noise * dp.clip, self.entropy)
        return {name: (value + noise[name]) / self.config.clients for name, value in total.items()}


def check_phases(phases: Iterable[Phase], settings: RunConfig) -> None:
    """Refuse settings that do with contributions what the phases of a method do not allow.

    Raises:
        ConfigError: naming the setting, the phase, and the remedy.
    """
    aggregation, privacy = settings.aggregation, settings.privacy
    # Such sums are opened whole whatever becomes of steps.
    rule = "mean" if aggregation.rule in GROUP_RULES else aggregation.rule
    summed = {
        "aggregation.rule": (rule, "mean"),
        "aggregation.normalise": (aggregation.normalise, "none"),
        "privacy.dp.mode": (privacy.dp.mode, "off"),
    }
    single = {
        "aggregation.rule": (aggregation.rule, "mean"),
        "privacy.secure-aggregation": (privacy.secure_aggregation, False),
        "privacy.dp.mode": (privacy.dp.mode, "off"),
    }
    reasons: dict[str, tuple[str, Mapping[str, tuple[object, object]]]] = {
        "sum": ("sums over nodes, of which the method takes quotients", summed),
        "each": ("what each client sends, singly", single),
    }
    for phase in phases:
        what, needed = reasons.get(phase.gathers, ("", {}))
        for key, (value, wanted) in needed.items():
            if value != wanted:
                raise ConfigError(
                    f"{key} = {str(value).lower()}: phase '{phase.name}' of method {settings.method} gathers {what}: "
                    f"set it to {str(wanted).lower()}"
                )


def check_noised(phases: Iterable[Phase], guarantee: Mapping[str, Any], settings: RunConfig) -> None:
    """Refuse exchanges that noise of a method's own does not cover.

    Args:
        phases: of the run.
        guarantee: of the method.
        settings: of the run.

    Raises:
        ConfigError: naming the phase and the remedy.
    """
    for phase in phases:
        if phase.gathers == "step":
            raise ConfigError(
                f"phase '{phase.name}' ({phase.why}) gathers updates, which the noise that protects "
                f"{guarantee['unit']} does not cover: leave out what it belongs to (parts = {settings.parts or 'none'})"
            )


def masked_mean(
    total: Mapping[str, Tensor],
    weight: float,
    steps: float,
    fednova_scaled: bool,
    shares: Mapping[str, float] | None = None,
) -> dict[str, Tensor]:
    """The mean update from sums over those who survived a secure summation (Eq. 13).

    Args:
        total: Σ w_i Δ_i / a_i, or Σ w_i Δ_i without normalisation.
        weight: Σ w_i.
        steps: Σ w_i a_i.
        fednova_scaled: whether the updates were divided by a_i, save what steps do not move.
        shares: Σ w_i over the users of each tensor that only some of them have, by which it is divided.

    Returns:
        Nothing where no weight came together, or no step was taken; without the tensors whose users weigh nothing.
    """
    if not (math.isfinite(weight) and weight > 0) or (fednova_scaled and steps <= 0):
        return {}
    effective = steps / weight if fednova_scaled else 1.0
    divisors = {**dict.fromkeys(total, weight), **(shares or {})}
    return {
        name: value * ((effective if moved_by_steps(name) else 1.0) / divisors[name])
        for name, value in total.items()
        if divisors[name] > 0
    }
