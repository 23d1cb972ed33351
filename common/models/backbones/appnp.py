"""Predict, then propagate by personalised PageRank (Klicpera et al., 2019)."""

from __future__ import annotations

from fedtag.common.models.backbones.propagated import Propagated, pagerank_weights
from fedtag.common.models.backbones.settings import AppnpConfig
from fedtag.common.settings.sections import ModelConfig, Section


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Propagated:
    """Z_0 = MLP(X), Z_(k+1) = (1 - α) Â Z_k + α Z_0, logits Z_K; arguments as of `BackboneSpec.build`."""
    assert isinstance(table, AppnpConfig)
    weights = pagerank_weights(table.hops, table.restart)
    return Propagated(inputs, hidden, classes, model.layers, model.dropout, weights, skip)
