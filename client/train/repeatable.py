"""Arithmetic that gives the same bits again on the same device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import deterministic

from fedtag.common.condensers.spec import NONE
from fedtag.common.config import RunConfig
from fedtag.common.models.spec import BACKBONES

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
FILLS = "fill_uninitialized_memory"
"""An option that takes time and brings nothing where no memory is read before it is written."""


@contextmanager
def repeatable(device: torch.device, config: RunConfig) -> Iterator[None]:
    """Let a GPU sum in one order within the block, where what computes there does not do so anyway.

    PyTorch warns of a kernel that has no such form.
    """
    if device.type != "cuda" or sums_in_order(config):
        yield
        return
    # Read when the library of matrix products is first used; without it the order may depend on what else runs.
    os.environ.setdefault(WORKSPACE, ":4096:8")
    strict, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fills = getattr(deterministic, FILLS)
    torch.use_deterministic_algorithms(True, warn_only=True)
    setattr(deterministic, FILLS, False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        setattr(deterministic, FILLS, fills)


def sums_in_order(config: RunConfig) -> bool:
    """Whether everything that a client computes in a run sums in one order on every device."""
    traits = config.spec.traits
    alone = config.condenser.name == NONE and not config.part_names
    return alone and traits.ordered and traits.backbone and BACKBONES.get(config.model.backbone).ordered
