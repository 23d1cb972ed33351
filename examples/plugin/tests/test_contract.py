"""What every extension owes its users, asked by fedtag's own checks; and of what is to go together."""

from __future__ import annotations

from typing import Any

import pytest

from fedtag.testing import check_backbone, check_condenser, check_method, check_part

HIDDEN = {
    "privacy.secure-aggregation": True,
    "privacy.hide-statistics": True,
    "aggregation.weights": "uniform",
}
TOGETHER: dict[str, dict[str, Any]] = {
    "hidden": HIDDEN,
    "on the hardest nodes, inductive": {"condenser.name": "hardest", "train.inductive": True},
    "on noise, by the distribution": {
        "parts": "feature-noise",
        "feature-noise.deviation": 0.3,
        "aggregation.weights": "distribution-aware",
    },
    "mended and noisy, averaged": {
        "parts": "feature-noise,neighbour-generator",
        "neighbour-generator.rounds": 2,
        "aggregation.average-decay": 0.5,
    },
    "twice-linear": {"model.backbone": "twice-linear", "twice-linear.restart": 0.5},
}
NOISY: dict[str, dict[str, Any]] = {
    "hardest, secure": {"condenser.name": "hardest", "privacy.secure-aggregation": True},
    "isolated, twice-linear": {"method": "isolated", "model.backbone": "twice-linear"},
}


def test_the_method_keeps_the_contract() -> None:
    check_method("class-balance")


def test_the_part_keeps_the_contract() -> None:
    check_part("feature-noise")


def test_the_condenser_keeps_the_contract() -> None:
    check_condenser("hardest")


def test_the_backbone_keeps_the_contract() -> None:
    check_backbone("twice-linear", {"twice-linear.restart": 0.5})


def test_the_backbone_keeps_it_where_all_is_in_one_place() -> None:
    check_backbone("twice-linear", {"method": "centralised"})


@pytest.mark.parametrize("name", TOGETHER)
def test_the_method_keeps_it_with(name: str) -> None:
    check_method("class-balance", TOGETHER[name])


@pytest.mark.parametrize("name", NOISY)
def test_the_part_keeps_it_with(name: str) -> None:
    check_part("feature-noise", NOISY[name])
