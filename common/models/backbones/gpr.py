"""Generalised PageRank (Chien et al., 2021): how much each hop counts is learned."""

from __future__ import annotations

from torch import nn

from fedtag.common.models.backbones.propagated import Propagated, pagerank_weights
from fedtag.common.models.backbones.settings import GprConfig
from fedtag.common.settings.sections import ModelConfig, Section


def build(
    inputs: int, hidden: int, classes: int, model: ModelConfig, table: Section | None, skip: bool = False
) -> Propagated:
    """Logits Σ_k γ_k Â^k MLP(X), γ learned from those of personalised PageRank; arguments as of `BackboneSpec.build`.

    A weight below 0 lets a hop count against a class, as graphs need on which neighbours mostly have other labels.
    """
    assert isinstance(table, GprConfig)
    weights = nn.Parameter(pagerank_weights(table.hops, table.restart))
    return Propagated(inputs, hidden, classes, model.layers, model.dropout, weights, skip)
