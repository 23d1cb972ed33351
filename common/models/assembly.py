"""Initial models from settings: the same values on every machine for the same seed."""

from __future__ import annotations

from collections.abc import Callable

from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.spec import BACKBONES
from fedtag.common.randomness import derive_seed, seeded
from fedtag.common.settings.sections import ModelConfig, Section


def backbone(
    model: ModelConfig, dimension: int, classes: int, table: Section | None = None, skip: bool = False
) -> NodeClassifier:
    """The backbone that settings name, with values that are drawn now.

    Args:
        model: family, width, depth, dropout.
        dimension: of the node features.
        classes: number of classes.
        table: the backbone's own settings, if it has any.
        skip: add a linear map of the input to the logits.
    """
    spec = BACKBONES.get(model.backbone)
    build: Callable[..., NodeClassifier] = BACKBONES.resolved(spec, spec.build)
    return build(dimension, model.hidden, classes, model, table, skip)


def initial_backbone(
    model: ModelConfig, dimension: int, classes: int, seed: int, table: Section | None = None
) -> NodeClassifier:
    """The backbone of a run with its initial values; arguments as of `backbone`, and the seed of the run."""
    return seeded(lambda: backbone(model, dimension, classes, table), derive_seed(seed, "initial model"))
