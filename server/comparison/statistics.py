"""Means over seeds and paired differences between rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95
LEAST_PAIRS = 3
EQUAL = 1e-12


@dataclass(frozen=True)
class Spread:
    """The mean of `count` values and their sample standard deviation, None for a single value."""

    mean: float
    std: float | None
    count: int


@dataclass(frozen=True)
class Difference:
    """The mean of `count` paired differences and its confidence interval, None where they tell of none."""

    mean: float
    low: float | None
    high: float | None
    count: int


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and sample standard deviation (divisor n - 1); None of no value."""
    if not values:
        return None
    numbers = np.asarray(values, dtype=np.float64)
    std = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
    return Spread(float(numbers.mean()), std, len(numbers))


def paired_difference(
    values: Mapping[int, float], baseline: Mapping[int, float], level: float = LEVEL
) -> Difference | None:
    """Student's interval for the mean of value - baseline over the seeds that both have.

    With n pairs it is d ± t s / sqrt(n), where d and s are the mean and the sample standard deviation of
    the differences and t is the (1 + level) / 2 quantile of Student's distribution with n - 1 degrees of
    freedom. It supposes that differences are normally distributed over seeds. Two pairs say too little of s,
    and equal differences would give an interval of no width: both have no interval.

    Args:
        values: scores by seed.
        baseline: scores of what is compared with, by seed.
        level: confidence in (0, 1).

    Returns:
        None without a common seed.
    """
    pairs = [values[seed] - baseline[seed] for seed in sorted(values.keys() & baseline.keys())]
    found = spread(pairs)
    if found is None:
        return None
    if found.std is None or found.count < LEAST_PAIRS or max(pairs) - min(pairs) <= EQUAL:
        return Difference(found.mean, None, None, found.count)
    quantile = float(stdtrit(found.count - 1, (1 + level) / 2))
    margin = quantile * found.std / math.sqrt(found.count)
    return Difference(found.mean, found.mean - margin, found.mean + margin, found.count)
