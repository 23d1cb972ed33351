"""What a setting means that was left to the method: what one method needs would spoil another one's baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNSET: Mapping[str, Mapping[str, Any]] = {
    "train": {
        "epochs": 0,
        "optimizer": "default",
        "learning_rate": 0.0,
        "schedule": "default",
        "prox_mu": -1.0,
    },
    "aggregation": {"weights": "default", "normalise": "default", "average_decay": -1.0},
    "condenser": {"name": "none"},
}
"""The value by which a setting is left to the method, by section and name."""

COMMON: Mapping[str, Mapping[str, Any]] = {
    "train": {
        "epochs": 3,
        "optimizer": "adam",
        "learning_rate": 0.01,
        "schedule": "constant",
        "prox_mu": 0.0,
    },
    "aggregation": {"weights": "samples", "normalise": "none", "average_decay": 0.0},
    "condenser": {"name": "none"},
}

OWN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "dance": {"aggregation": {"average_decay": 0.95}},
    "fedc4": {"condenser": {"name": "gcond-x"}},
    "da_dfgas": {
        "train": {
            "epochs": 10,
            "optimizer": "sgd",
            "learning_rate": 0.1,
            "schedule": "cosine",
            "prox_mu": 0.01,
        },
        "aggregation": {"weights": "distribution-aware", "normalise": "fednova"},
    },
}


def left_to_the_method(method: str, section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of those settings of a section that were left to the method.

    Args:
        method: of the run.
        section: one of `UNSET`.
        given: all settings of the section.
    """
    own = {**COMMON[section], **OWN.get(method, {}).get(section, {})}
    return {name: own[name] for name, unset in UNSET[section].items() if given[name] == unset}
