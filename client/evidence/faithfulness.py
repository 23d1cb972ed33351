"""Whether evidence is what a prediction rests on: accuracies, drops, curves and their paired intervals.

Sufficiency and comprehensiveness as in DeYoung et al., "ERASER", ACL 2020; percentile bootstrap over the
nodes, all conditions of a node drawn together (Efron and Tibshirani, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

EVIDENCE, RANDOM, SELECTED, DENSE = "evidence", "random", "selected_nodes", "dense_attention"
CONTROLS = (RANDOM, SELECTED, DENSE)
RESAMPLES = 2000
CONFIDENCE = 0.95
SUFFICIENCY_GOAL = 0.97
COMPREHENSIVENESS_GOAL = 2.0
_BLOCK = 4_000_000  # resampled entries that are held at a time

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Readings:
    """What was read off for each target and step of one kind of change.

    Args:
        probability: of the class that was predicted from the full text, in [0, 1].
        correct: whether the prediction is the label.
    """

    probability: Float[np.ndarray, "targets steps"]
    correct: Bool[np.ndarray, "targets steps"]


@dataclass(frozen=True)
class Outcomes:
    """Everything that was read off for the targets of one or several sites.

    Each mapping has one entry for the evidence and for each control, by name.

    Args:
        full: one step, the unchanged texts.
        removed: step k has the k strongest chunks cut out; step 0 is the full text. A target with fewer
            chunks repeats its last step.
        kept: step k has only the k strongest chunks, every other text of the graph is empty.
        kept_near: one step, all of the chunks; texts beyond the target's two hops stay.
    """

    full: Readings
    removed: Mapping[str, Readings]
    kept: Mapping[str, Readings]
    kept_near: Mapping[str, Readings]

    @property
    def targets(self) -> int:
        """How many nodes were measured."""
        return len(self.full.correct)


@dataclass(frozen=True)
class Interval:
    """An estimate and its bootstrap interval; None where it has no finite value."""

    estimate: float | None
    low: float | None
    high: float | None


def pooled(parts: Sequence[Outcomes]) -> Outcomes:
    """The targets of several sites as those of one; at least one part."""

    def joined(readings: Sequence[Readings]) -> Readings:
        return Readings(
            np.concatenate([part.probability for part in readings]),
            np.concatenate([part.correct for part in readings]),
        )

    def by_name(mappings: Sequence[Mapping[str, Readings]]) -> dict[str, Readings]:
        return {name: joined([mapping[name] for mapping in mappings]) for name in mappings[0]}

    return Outcomes(
        joined([part.full for part in parts]),
        by_name([part.removed for part in parts]),
        by_name([part.kept for part in parts]),
        by_name([part.kept_near for part in parts]),
    )


def paired_bootstrap(
    columns: Sequence[Float[np.ndarray, " targets"]],
    statistic: Callable[..., Values],
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Percentile interval of a function of the columns' means, targets resampled in whole rows.

    Args:
        columns: of one length.
        statistic: called with one array of means a column; works elementwise.
        generator: draws the resamples.
        resamples: >= 1.
        confidence: in (0, 1).
    """
    table = np.stack([np.asarray(column, np.float64) for column in columns])
    count = table.shape[1]
    if count == 0:
        return Interval(None, None, None)
    estimate = float(statistic(*table.mean(1, keepdims=True))[0])
    values = []
    block = max(1, _BLOCK // count)
    for first in range(0, resamples, block):
        rows = generator.integers(0, count, (min(block, resamples - first), count))
        values.append(statistic(*(column[rows].mean(1) for column in table)))
    # A quotient of nothing by nothing is no support for either side.
    drawn = np.nan_to_num(np.concatenate(values), nan=0.0, posinf=np.inf, neginf=-np.inf)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    # Between infinite values there is nothing to interpolate.
    method = "linear" if np.isfinite(drawn).all() else "inverted_cdf"
    low, high = np.quantile(drawn, tails, method=method)  # type: ignore[call-overload]
    return Interval(_finite(estimate), _finite(low), _finite(high))


def area(curve: Float[np.ndarray, "targets steps"]) -> Values:
    """For each target the area under its curve over k = 0 … steps - 1, the axis scaled to length 1."""
    if curve.shape[1] == 1:
        return np.asarray(curve[:, 0], np.float64)
    return np.asarray((curve[:, 1:] + curve[:, :-1]).mean(1) / 2, np.float64)


def faithfulness_report(outcomes: Outcomes, seed: int, resamples: int = RESAMPLES) -> dict[str, Any]:
    """All numbers of some targets, in plain types: means, intervals and the goals; nothing of a single target.

    Args:
        outcomes: of at least one target.
        seed: of the bootstrap; every interval uses the same resamples.
        resamples: of the bootstrap.
    """

    def interval(statistic: Callable[..., Values], *columns: Values | NDArray[np.bool_]) -> Interval:
        generator = np.random.default_rng(seed)
        return paired_bootstrap(
            [np.asarray(column, np.float64) for column in columns], statistic, generator, resamples
        )

    full = outcomes.full
    right = full.correct[:, 0]
    names = list(outcomes.removed)
    conditions = {"removed": outcomes.removed, "kept": outcomes.kept, "kept_near": outcomes.kept_near}
    drops = {
        action: {name: full.probability[:, 0] - readings[name].probability[:, -1] for name in names}
        for action, readings in conditions.items()
    }
    fell = drops["removed"]
    sufficiency = {
        action: {name: interval(ratio, conditions[action][name].correct[:, -1], right) for name in names}
        for action in ("kept", "kept_near")
    }
    controls = [name for name in names if name != EVIDENCE]
    over = {name: interval(ratio, fell[EVIDENCE], fell[name]) for name in controls}
    excess = {name: interval(np.subtract, fell[EVIDENCE], fell[name]) for name in controls}
    twice = interval(_beyond_goal, fell[EVIDENCE], fell[RANDOM])
    return {
        "targets": outcomes.targets,
        "accuracy": {
            "full": _mean(right),
            **{
                action: {name: _mean(readings[name].correct[:, -1]) for name in names}
                for action, readings in conditions.items()
            },
        },
        "probability_full": _mean(full.probability[:, 0]),
        "drop": {action: {name: _mean(drops[action][name]) for name in names} for action in conditions},
        "curves": {
            action: {
                name: {
                    "probability": _means(readings[name].probability),
                    "accuracy": _means(readings[name].correct),
                }
                for name in names
                if readings[name].probability.shape[1] > 2
            }
            for action, readings in (("removed", outcomes.removed), ("kept", outcomes.kept))
        },
        "area": {
            action: {
                name: _mean(area(readings[name].probability))
                for name in names
                if readings[name].probability.shape[1] > 2
            }
            for action, readings in (("removed", outcomes.removed), ("kept", outcomes.kept))
        },
        "sufficiency": {
            action: {name: vars(one) for name, one in row.items()} for action, row in sufficiency.items()
        },
        "comprehensiveness": {name: vars(interval(_identity, fell[name])) for name in names},
        "comprehensiveness_minus": {name: vars(one) for name, one in excess.items()},
        "comprehensiveness_over": {name: vars(one) for name, one in over.items()},
        "goals": [
            _goal("sufficiency", SUFFICIENCY_GOAL, sufficiency["kept"][EVIDENCE]),
            _goal("sufficiency_near", SUFFICIENCY_GOAL, sufficiency["kept_near"][EVIDENCE]),
            {
                **_goal("comprehensiveness_over_random", COMPREHENSIVENESS_GOAL, over[RANDOM]),
                # The difference has an interval also where the random drop is close to zero.
                "met": _at_least(twice.estimate, 0.0) and _at_least(_mean(fell[EVIDENCE]), 0.0),
                "secured": _at_least(twice.low, 0.0) and _at_least(_mean(fell[EVIDENCE]), 0.0),
            },
        ],
    }


def ratio(numerator: Values, denominator: Values) -> Values:
    """Elementwise quotient of two means; over nothing or less, infinite if there is something, else NaN."""
    positive = denominator > 0
    quotient = numerator / np.where(positive, denominator, 1.0)
    return np.where(positive, quotient, np.where(numerator > 0, np.inf, np.nan))


def _identity(value: Values) -> Values:
    return value


def _beyond_goal(evidence: Values, random: Values) -> Values:
    return evidence - COMPREHENSIVENESS_GOAL * random


def _goal(name: str, goal: float, found: Interval) -> dict[str, Any]:
    return {
        "name": name,
        "goal": goal,
        **vars(found),
        "met": _at_least(found.estimate, goal),
        "secured": _at_least(found.low, goal),
    }


def _at_least(value: float | None, goal: float) -> bool:
    return value is not None and value >= goal


def _finite(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def _mean(values: NDArray[Any]) -> float:
    return round(float(np.mean(values)), 6)


def _means(values: NDArray[Any]) -> list[float]:
    return [round(float(value), 6) for value in np.mean(values, axis=0)]
