"""The model of FedGC's self-training."""

from __future__ import annotations

from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.settings.run_settings import RunSettings


def initial_teacher(settings: RunSettings, dimension: int, classes: int) -> NodeClassifier:
    """The GCN of self-training with its initial values, whatever the backbone of the run."""
    model = settings.model.model_copy(update={"backbone": "gcn"})
    return initial_backbone(settings.model_copy(update={"model": model}), dimension, classes)
