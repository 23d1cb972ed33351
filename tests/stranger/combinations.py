"""fedtag's own contract suite over what the stranger's package brings; its entry points lie on the path."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.conftest import session_folders  # noqa: F401
from tests.contract.conftest import (  # noqa: F401
    federate,
    federation,
    finished,
    flipped,
    graph_of,
    numbers_in,
)

BALANCE = {"method": "class-balance"}
SECURE = {"privacy.secure-aggregation": True}
HIDDEN = {**SECURE, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
NOISE = {"parts": "feature-noise", "feature-noise.deviation": 0.3}
LINEAR = {"model.backbone": "twice-linear", "twice-linear.restart": 0.5}
HARDEST = {"condenser.name": "hardest"}
COMBINATIONS: dict[str, dict[str, Any]] = {
    "class-balance, secure": {**BALANCE, **SECURE},
    "class-balance, twice-linear": {**BALANCE, **LINEAR},
    "fedavg, noise, hardest, secure": {"method": "fedavg", **NOISE, **HARDEST, **SECURE},
    "class-balance": BALANCE,
    "class-balance, secure and hidden": {**BALANCE, **HIDDEN},
    "class-balance, hardest, inductive": {**BALANCE, **HARDEST, "train.inductive": True},
    "class-balance, noise, distribution-aware": {
        **BALANCE,
        **NOISE,
        "aggregation.weights": "distribution-aware",
    },
    "class-balance, mended and noisy, averaged": {
        **BALANCE,
        "parts": "feature-noise,neighbour-generator",
        "neighbour-generator.rounds": 2,
        "aggregation.average-decay": 0.5,
    },
    "isolated, noise, twice-linear": {"method": "isolated", **NOISE, **LINEAR},
    "centralised, twice-linear": {"method": "centralised", **LINEAR},
}


CHOSEN = "COMBINATION"
"""The variable of the environment that names the only one."""


@pytest.fixture(
    scope="session", params=[name for name in COMBINATIONS if os.environ.get(CHOSEN, name) == name]
)
def method(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of each combination in turn."""
    return COMBINATIONS[request.param]
