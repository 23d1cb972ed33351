"""Initial models from settings: the same values on every machine for the same seed."""

from __future__ import annotations

from collections.abc import Callable

from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.spec import BACKBONES
from fedtag.common.randomness import derive_seed, seeded
from fedtag.common.settings.run_settings import RunSettings
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
    built = build(dimension, model.hidden, classes, model, table, skip)
    built.sums = spec.sums
    return built


def initial_backbone(
    settings: RunSettings, dimension: int, classes: int, seed: int | None = None
) -> NodeClassifier:
    """The backbone of a run with its initial values.

    Args:
        settings: of the run, with the backbone's own table.
        dimension: of the node features.
        classes: number of classes.
        seed: that of the run where None.
    """
    model, table = settings.model, settings.tables.get(settings.model.backbone)
    drawn = derive_seed(settings.seed if seed is None else seed, "initial model")
    return seeded(lambda: backbone(model, dimension, classes, table), drawn)
