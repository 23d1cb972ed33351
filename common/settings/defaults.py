"""Shared settings that are left to the method: what one method needs would spoil another one's baseline."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

METHOD: str = tomllib.loads((Path(__file__).with_name("defaults.toml")).read_text(encoding="utf-8"))["method"]
"""The method of a run where nobody names one."""

UNSET: Mapping[str, Any] = {
    "train.epochs": 0,
    "train.optimizer": "default",
    "train.learning-rate": 0.0,
    "train.schedule": "default",
    "train.prox-mu": -1.0,
    "aggregation.weights": "default",
    "aggregation.normalise": "default",
    "aggregation.rule": "default",
    "aggregation.average-decay": -1.0,
    "condenser.name": "none",
}
"""The value by which a setting is left to the method, by dotted key."""

COMMON: Mapping[str, Any] = {
    "train.epochs": 3,
    "train.optimizer": "adam",
    "train.learning-rate": 0.01,
    "train.schedule": "constant",
    "train.prox-mu": 0.0,
    "aggregation.weights": "samples",
    "aggregation.normalise": "none",
    "aggregation.rule": "mean",
    "aggregation.average-decay": 0.0,
    "condenser.name": "none",
}
"""What such a setting means where the method says nothing of it."""


def left_to_the_method(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those settings that were left to the method, by dotted key.

    Args:
        given: all settings.
        defaults: those of the method.
    """
    own = {**COMMON, **defaults}
    return {key: own[key] for key, unset in UNSET.items() if given[key] == unset}
