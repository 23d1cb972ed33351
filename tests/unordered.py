"""Which operators were called whose order of sums is left to a device."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

INDEXED = ("index_add", "index_add_", "scatter_add", "scatter_add_")
UNORDERED = (*INDEXED, "embedding_dense_backward", "_embedding_bag_dense_backward")
"""Operators that on a GPU add floats of one place in any order."""


class Called(TorchDispatchMode):
    """Such operators that were called on floats.

    Attributes:
        most: of each the most values that it added at one place; of two the sum is the same in either order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[str, float] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        if name in UNORDERED and isinstance(made, torch.Tensor) and made.is_floating_point():
            most = max(torch.bincount(args[2].flatten()).tolist(), default=0) if name in INDEXED else math.inf
            self.most[name] = max(self.most.get(name, 0), most)
        return made
