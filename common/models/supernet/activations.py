"""Activations on the edges of the last layer of a cell."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from common.models.supernet.space import ACTIVATIONS


def _identity(x: Tensor) -> Tensor:
    return x


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = dict(
    zip(
        ACTIVATIONS,
        (
            _identity,
            functional.leaky_relu,
            functional.relu,
            torch.tanh,
            functional.elu,
            torch.sigmoid,
        ),
        strict=True,
    )
)
"""LeakyReLU has slope 0.01 below zero, ELU has α = 1."""
