"""Gradients of models that add up what neighbours say, which grow with the degree."""

from __future__ import annotations

from torch import nn

from fedtag.common.models.classifier import NodeClassifier

LARGEST = 5.0
"""L2 norm to which the gradient of such a model is cut, all of its parameters together."""


def limit_gradient(model: nn.Module) -> None:
    """Cut the gradient of a model to `LARGEST`, in place, if it is or holds a classifier that `sums`."""
    if any(isinstance(module, NodeClassifier) and module.sums for module in model.modules()):
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST)
