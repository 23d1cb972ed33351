"""Gradients of models whose layers sum over neighbours, which grow with the degree."""

from __future__ import annotations

from torch import nn

LARGEST = 5.0
"""L2 norm to which the gradient of such a model is cut, all of its parameters together."""


class Summing(nn.Module):
    """A layer that adds up messages of neighbours, however many there are."""


def limit_gradient(model: nn.Module) -> None:
    """Cut the gradient of a model to `LARGEST`, in place, if one of its layers is `Summing`."""
    if any(isinstance(module, Summing) for module in model.modules()):
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST)
