"""Search and retraining: which rounds they have, and when the search is over."""

from __future__ import annotations

import math

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.methods.da_dfgas.course import first_supernet, stages_of
from fedtag.common.models.parameters import parameters_of
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.stages import Stages, architecture_entropy, is_stable


def test_each_stage_counts_its_rounds_from_one() -> None:
    stages = stages_of(RunConfig(method="da_dfgas", rounds=10, da_dfgas={"search-share": 0.3}))
    assert [stages.place(number) for number in (1, 3, 4, 10)] == [(1, 3), (3, 3), (1, 7), (7, 7)]
    assert [number for number in range(1, 11) if stages.ends_search(number)] == [3]
    only = stages_of(RunConfig(method="da_dfgas", rounds=4, da_dfgas={"search-share": 1.0}))
    assert not any(only.ends_search(number) for number in range(1, 5))


def test_a_search_ends_early_but_never_late() -> None:
    config = RunConfig(method="da_dfgas", rounds=10)
    assert stages_of(config, 2) == Stages(2, 10)
    assert stages_of(config, 9) == Stages(5, 10)


def test_entropy_is_one_where_all_choices_are_alike_and_zero_where_one_is_sure() -> None:
    config = RunConfig(method="da_dfgas", model={"hidden": 4}, da_dfgas={"cells": 2})
    model = parameters_of(first_supernet(config, 5, 3))
    logits = {name: torch.zeros_like(value) for name, value in model.items() if is_architecture(name)}
    assert architecture_entropy(logits) == pytest.approx(1, abs=1e-6)
    for value in logits.values():
        value[..., 1] = 1e4
    assert architecture_entropy(logits) == 0
    # Half of all choices even between two of six operations and the like, by hand in one layer.
    layer = {
        name: value.clone() for name, value in logits.items() if name == "architecture.0.activate_operations"
    }
    layer["architecture.0.activate_operations"][..., 2] = 1e4
    changed = architecture_entropy({**logits, **layer})
    assert changed == pytest.approx(math.log(2) / math.log(6) / 12)


def test_five_quiet_rounds_are_stable() -> None:
    assert not is_stable([0.9] * 5, 0.01)
    assert is_stable([0.9] * 6, 0.01)
    assert is_stable([1.0, *[0.9] * 6], 0.01)
    assert not is_stable([0.9, 0.92, 0.9, 0.9, 0.9, 0.9], 0.01)
    assert not is_stable([0.9] * 9, 0.0)
