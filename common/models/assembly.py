"""Initial models from settings: the same values on every machine for the same seed."""

from __future__ import annotations

from fedtag.common.models.backbone import Backbone
from fedtag.common.models.parameters import seeded
from fedtag.common.randomness import derive_seed
from fedtag.common.settings.sections import ModelConfig


def initial_backbone(config: ModelConfig, dimension: int, classes: int, seed: int) -> Backbone:
    """The backbone of a run with its initial values.

    Args:
        config: family, width, depth, dropout.
        dimension: of the node features.
        classes: number of classes.
        seed: of the run.
    """
    return seeded(
        lambda: Backbone(config.backbone, dimension, config.hidden, classes, config.layers, config.dropout),
        derive_seed(seed, "initial model"),
    )
