"""Activations on the edges of the last layer of a cell."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from fedtag.common.models.supernet.space import ACTIVATIONS


def _identity(x: Tensor) -> Tensor:
    return x


def _sigmoid(x: Tensor) -> Tensor:
    return 4 * torch.sigmoid(x) - 2


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = dict(
    zip(
        ACTIVATIONS,
        (
            _identity,
            functional.leaky_relu,
            functional.relu,
            torch.tanh,
            functional.elu,
            _sigmoid,
        ),
        strict=True,
    )
)
"""LeakyReLU has slope 0.01 below zero, ELU has α = 1. The sigmoid σ comes as 4σ − 2, its scaled form (Xu et al., 2016,
"Revise saturated activation functions"): 0 for nothing, and of slope 1 there, like the others. As it stands it would
give every node nearly the same 1/2, from which few steps of SGD do not lead away."""
