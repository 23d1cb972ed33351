"""One round's condensation: what is read of the core, and its topology (DANCE, sections 4.2 to 4.4)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.condense.core.of_round import core_links
from fedtag.client.condense.core.prior import evidence_prior
from fedtag.client.methods.dance.evidence import (
    Evidence,
    EvidenceVectors,
    evidence_vectors,
    joined_evidence,
    joined_vectors,
    kept_alone,
    select_evidence,
    select_with_vectors,
)
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.neighbours import prediction_entropy
from fedtag.client.methods.dance.selection import weighted_sum
from fedtag.client.train.passes import hidden_and_logits
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel, Views
from fedtag.common.methods.dance.settings import DanceConfig


@dataclass(frozen=True)
class Forward:
    """What one pass of the received model over the original graph gives: g, logits, difficulty."""

    g: Float[Tensor, "nodes hidden"]
    logits: Float[Tensor, "nodes classes"]
    difficulty: Float[Tensor, " nodes"]


@torch.no_grad()
def forward(model: DanceModel, local: LocalGraph) -> Forward:
    """Run the backbone on (A, t)."""
    g, logits = hidden_and_logits(model.backbone, local.graph.x, local.adjacency, local.batching)
    return Forward(g, logits, prediction_entropy(logits.softmax(1)))


def choose_evidence(
    model: DanceModel, local: LocalGraph, passed: Forward, rows: Int[Tensor, " rows"]
) -> Evidence:
    """Hierarchical text condensation of some nodes, by the given model."""
    hops = local.candidates(rows, passed.difficulty)
    return select_evidence(model, passed.g, local.texts, rows, hops, local.budgets, local.config.chunk_budget)


def views(
    model: DanceModel, local: LocalGraph, g: Float[Tensor, "nodes hidden"], evidence: Evidence
) -> tuple[Views, EvidenceVectors]:
    """What the fusion reads for the rows of the evidence."""
    found = evidence_vectors(model, g, local.texts, evidence)
    return _joined(local, g, evidence, found), found


def chosen_views(
    model: DanceModel, local: LocalGraph, passed: Forward, rows: Int[Tensor, " rows"]
) -> tuple[Evidence, Views, EvidenceVectors]:
    """`choose_evidence` and `views` by the same model, which needs the scores once only."""
    hops = local.candidates(rows, passed.difficulty)
    evidence, found = select_with_vectors(
        model, passed.g, local.texts, rows, hops, local.budgets, local.config.chunk_budget
    )
    return evidence, _joined(local, passed.g, evidence, found), found


@torch.no_grad()
def views_of_all(
    model: DanceModel, local: LocalGraph, passed: Forward
) -> tuple[Evidence, Views, EvidenceVectors]:
    """`chosen_views` of every node; in parts, candidates that no budget keeps are left out of the evidence."""
    rows = torch.arange(local.graph.num_nodes, device=local.graph.x.device)
    if not local.batching.splits(rows.numel()):
        return chosen_views(model, local, passed, rows)
    parts = []
    for some in rows.split(local.batching.size):
        evidence, seen, found = chosen_views(model, local, passed, some)
        kept, vectors = kept_alone(evidence, found)
        parts.append((kept, seen, vectors))
    evidences, seen_parts, found_parts = zip(*parts, strict=True)
    seen = Views(
        *(torch.cat(column) for column in zip(*(vars(one).values() for one in seen_parts), strict=True))
    )
    return joined_evidence(evidences), seen, joined_vectors(found_parts)


def _joined(
    local: LocalGraph, g: Float[Tensor, "nodes hidden"], evidence: Evidence, found: EvidenceVectors
) -> Views:
    config, rows = local.config, evidence.rows
    condensed = _condensed(local, evidence, found) if config.text_condensation else local.texts.pooled[rows]
    text = config.mix * condensed + (1 - config.mix) * found.context
    if local.are_all_nodes(rows):
        return Views(g, text, local.bypass)
    return Views(g[rows], text, local.bypass[rows])


def _condensed(local: LocalGraph, evidence: Evidence, found: EvidenceVectors) -> Float[Tensor, "rows dim"]:
    """t̃ of the rows, joined by the summaries of the nodes whose chunks were selected."""
    if local.summaries is None:
        return found.condensed
    return weighted_sum(found.chunk_weights, local.chunk_views, evidence.chunks)


def core_graph(
    config: DanceConfig, local: LocalGraph, evidence: Evidence, x: Float[Tensor, "core dim"]
) -> tuple[Adjacency, dict[str, bool]]:
    """`core_links` of the evidence's rows, by their fused features and what their evidence has in common."""
    prior = evidence_prior(evidence.selected_chunks, local.texts.chunks)
    return core_links(config, local.graph, evidence.rows, x, prior)
