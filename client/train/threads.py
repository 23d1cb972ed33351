"""Threads for the size of the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 2_000_000
"""Numbers in a feature matrix below which more threads cost processor time and save no wall time."""


@contextmanager
def limited_threads(size: int) -> Iterator[None]:
    """One thread for small work, all of them for large; it depends on the data alone, so that engines agree.

    Args:
        size: numbers in the feature matrix.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if size < SMALL else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
