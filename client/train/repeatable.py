"""Arithmetic that gives the same bits again on the same device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import deterministic

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """Let a GPU sum in one order within the block; a processor does so anyway.

    PyTorch warns of a kernel that has no such form.
    """
    if device.type != "cuda":
        yield
        return
    # Read when the library of matrix products is first used; without it the order may depend on what else runs.
    os.environ.setdefault(WORKSPACE, ":4096:8")
    strict, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fills = deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        deterministic.fill_uninitialized_memory = fills
