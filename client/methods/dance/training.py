"""Local training of DANCE on the condensed graph (Eq. 11 with the backbone's and the heads' own losses)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from fedtag.client.condense.core.members import Core
from fedtag.client.methods.dance.condensation import views
from fedtag.client.methods.dance.evidence import Evidence
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.train.examples import class_balanced, label_weights, weighted_entropy
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel, Views
from fedtag.common.methods.dance.settings import DanceConfig


def symmetric_divergence(
    a: Float[Tensor, "rows classes"], b: Float[Tensor, "rows classes"]
) -> Float[Tensor, ""]:
    """½ [KL(a ‖ b) + KL(b ‖ a)] of two tables of logits, mean over rows."""
    log_a, log_b = a.log_softmax(1), b.log_softmax(1)
    return 0.5 * ((log_a.exp() - log_b.exp()) * (log_a - log_b)).sum(1).mean()


def laplace(
    like: Float[Tensor, "rows dim"], scale: float, generator: torch.Generator
) -> Float[Tensor, "rows dim"]:
    """Independent draws of Laplace(0, scale), by inversion: −b sign(u) ln(1 − 2|u|), u uniform on (−½, ½)."""
    uniform = torch.rand(like.shape, generator=generator, device=like.device, dtype=torch.float64) - 0.5
    draws = -scale * uniform.sign() * torch.log1p(-2 * uniform.abs().clamp(max=0.5 - 1e-12))
    return draws.to(like.dtype)


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
        generator: of dropout and noise.
        seen: the views by the model as it is, which the first step then need not compute again.
        balanced: whether the labels of each class weigh the same together.
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
        seen: Views | None = None,
        balanced: bool = False,
    ) -> None:
        self.model = model
        self.local = local
        self.g = g
        self.evidence = evidence
        self.adjacency = adjacency
        self.config = config
        self.generator = generator
        self.first = seen
        self.raw = local.texts.pooled[core.nodes]
        self.labels = core.labels
        self.linked = with_lone_copies(adjacency) if config.sufficiency else adjacency
        self.noise = laplace(self.raw, config.noise, generator) if config.noise else None
        trained = local.graph.train_mask[core.nodes]
        weight = label_weights(core.labels, trained, config.pseudo_label_weight)
        self.weight = class_balanced(core.labels, weight) if balanced else weight

    def __call__(self) -> Tensor:
        model, config = self.model, self.config
        seen, self.first = self.first, None
        if seen is None:
            seen, _ = views(model, self.local, self.g, self.evidence)
        rows = seen.text.shape[0]
        fed = with_evidence_alone(seen) if config.sufficiency else seen
        x = model.fuse(fed)
        if self.noise is not None:
            x = torch.cat([functional.normalize(x[:rows] + self.noise, dim=1), x[rows:]])
        logits = model.backbone(x, self.linked, self.generator)
        fused_logits, x = logits[:rows], x[:rows]
        loss = self._entropy(fused_logits)
        graph_logits = model.graph_head(seen.graph)
        text_logits = model.text_head(seen.text)
        if config.head:
            heads = (
                self._entropy(model.fused_head(x)) + self._entropy(graph_logits) + self._entropy(text_logits)
            )
            loss = loss + config.head * heads
        if config.align:
            loss = loss + config.align * symmetric_divergence(graph_logits, text_logits)
        if config.plain_path or config.consistency:
            plain_logits = model.backbone(self.raw, self.adjacency, self.generator)
            loss = loss + config.plain_path * self._entropy(plain_logits)
            if config.consistency:
                loss = loss + config.consistency * symmetric_divergence(fused_logits, plain_logits)
        if config.sufficiency:
            loss = loss + config.sufficiency * self._entropy(logits[rows:])
        return loss

    def _entropy(self, logits: Float[Tensor, "core classes"]) -> Float[Tensor, ""]:
        return weighted_entropy(logits, self.labels, self.weight)


def with_lone_copies(adjacency: Adjacency) -> Adjacency:
    """The graph and, below its nodes, a copy of each without any neighbour."""
    lone = adjacency.num_nodes + torch.arange(adjacency.num_nodes, device=adjacency.weight.device)
    return Adjacency(
        torch.cat([adjacency.edge_index, lone.expand(2, -1)], dim=1),
        torch.cat([adjacency.weight, adjacency.weight.new_ones(adjacency.num_nodes)]),
        2 * adjacency.num_nodes,
    )


def with_evidence_alone(seen: Views) -> Views:
    """The rows and, below them, the same with nothing but their text view."""
    return Views(
        torch.cat([seen.graph, torch.zeros_like(seen.graph)]),
        torch.cat([seen.text, seen.text]),
        torch.cat([seen.bypass, torch.zeros_like(seen.bypass)]),
    )
