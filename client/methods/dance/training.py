"""Local training of DANCE on the condensed graph (Eq. 11 with the backbone's and the heads' own losses)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from client.condense.core import Core
from client.condense.evidence import Evidence
from client.methods.dance.condensation import views
from client.methods.dance.local_graph import LocalGraph
from common.graph import Adjacency
from common.models.dance import DanceModel
from common.sections import DanceConfig


def symmetric_divergence(
    a: Float[Tensor, "rows classes"], b: Float[Tensor, "rows classes"]
) -> Float[Tensor, ""]:
    """½ [KL(a ‖ b) + KL(b ‖ a)] of two tables of logits, mean over rows."""
    log_a, log_b = a.log_softmax(1), b.log_softmax(1)
    return 0.5 * ((log_a.exp() - log_b.exp()) * (log_a - log_b)).sum(1).mean()


class CoreLoss:
    """The loss on one round's core; called once a step.

    Args:
        model: trained in place.
        local: the graph that training sees.
        g: hidden state from the received model, fixed for the round.
        core: nodes, and their true or assigned labels.
        evidence: of the core.
        adjacency: the core's propagation matrix.
        config: weights of the terms.
        generator: of dropout.
    """

    def __init__(
        self,
        model: DanceModel,
        local: LocalGraph,
        g: Float[Tensor, "nodes hidden"],
        core: Core,
        evidence: Evidence,
        adjacency: Adjacency,
        config: DanceConfig,
        generator: torch.Generator,
    ) -> None:
        self.model = model
        self.local = local
        self.g = g
        self.evidence = evidence
        self.adjacency = adjacency
        self.config = config
        self.generator = generator
        self.raw = local.texts.pooled[core.nodes]
        self.labels = core.labels
        trained = local.graph.train_mask[core.nodes]
        weight = torch.where(trained, 1.0, config.pseudo_label_weight)
        self.weight = weight * (core.labels >= 0)

    def __call__(self) -> Tensor:
        model, config = self.model, self.config
        seen, _ = views(model, self.local, self.g, self.evidence)
        x = model.fuse(seen)
        loss = self._entropy(model.backbone(x, self.adjacency, self.generator))
        graph_logits = model.graph_head(seen.graph)
        text_logits = model.text_head(seen.text)
        if config.head:
            heads = (
                self._entropy(model.fused_head(x)) + self._entropy(graph_logits) + self._entropy(text_logits)
            )
            loss = loss + config.head * heads
        if config.align:
            loss = loss + config.align * symmetric_divergence(graph_logits, text_logits)
        if config.plain_path:
            loss = loss + config.plain_path * self._entropy(
                model.backbone(self.raw, self.adjacency, self.generator)
            )
        return loss

    def _entropy(self, logits: Float[Tensor, "core classes"]) -> Float[Tensor, ""]:
        losses = functional.cross_entropy(logits, self.labels.clamp(min=0), reduction="none")
        return (losses * self.weight).sum() / self.weight.sum()
