"""One round's condensation: the core, its evidence, its topology (DANCE, sections 4.2 to 4.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from client.condense.calibration import temperature
from client.condense.core import Core, pseudo_labels, select_core
from client.condense.evidence import (
    Evidence,
    EvidenceVectors,
    evidence_vectors,
    select_evidence,
    select_with_vectors,
)
from client.condense.neighbours import prediction_entropy
from client.condense.prior import evidence_prior
from client.condense.selection import weighted_sum
from client.condense.topology import rebuild_topology
from client.methods.dance.local_graph import LocalGraph
from common.graph import Adjacency, normalised_adjacency
from common.models.dance import DanceModel, Views
from common.settings.methods import DanceConfig


@dataclass(frozen=True)
class Forward:
    """What one pass of the received model over the original graph gives: g, logits, difficulty."""

    g: Float[Tensor, "nodes hidden"]
    logits: Float[Tensor, "nodes classes"]
    difficulty: Float[Tensor, " nodes"]


@torch.no_grad()
def forward(model: DanceModel, local: LocalGraph) -> Forward:
    """Run the backbone on (A, t)."""
    g, logits = model.backbone.hidden_and_logits(local.graph.x, local.adjacency)
    return Forward(g, logits, prediction_entropy(logits.softmax(1)))


def choose_core(
    local: LocalGraph,
    passed: Forward,
    ratio: float,
    generator: np.random.Generator,
    rotation: int,
    step: int,
    pace: float,
) -> Core:
    """Label-aware node condensation; no label but those of training nodes is read.

    Args:
        ratio: share of the nodes.
        generator: for clustering and noise of this refresh.
        rotation: seed of the order in which training nodes take turns.
        step: number of refreshes before this one.
        pace: of the policy `curriculum`.
    """
    graph, config = local.graph, local.config
    train_labels = torch.where(graph.train_mask, graph.y, -1)
    logits = passed.logits
    if config.calibration == "temperature":
        logits = logits / temperature(logits[graph.train_mask], graph.y[graph.train_mask])
    labels, _ = pseudo_labels(logits.softmax(1), train_labels, config.confidence)
    return select_core(
        passed.g,
        labels,
        graph.train_mask,
        num_classes=graph.num_classes,
        ratio=ratio,
        policy=config.core_policy,
        generator=generator,
        prototypes_per_class=config.prototypes,
        rotation_seed=rotation,
        step=step,
        pseudo_share=config.pseudo_share,
        surprise=functional.cross_entropy(passed.logits, labels.clamp(min=0), reduction="none")
        if config.core_policy == "curriculum"
        else None,
        pace=pace,
    )


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


@torch.no_grad()
def core_graph(
    config: DanceConfig, local: LocalGraph, evidence: Evidence, x: Float[Tensor, "core dim"]
) -> tuple[Adjacency, bool]:
    """The core's propagation matrix, and whether self-expression left no link and similarity stepped in."""
    if config.topology == "induced":
        return _induced(local, evidence.rows), False
    prior = evidence_prior(evidence.selected_chunks, local.texts.chunks)
    topology = rebuild_topology(
        x,
        prior,
        alpha=config.reconstruction,
        beta=config.sparsity,
        candidates=config.candidates,
        neighbours=config.degree,
    )
    return topology.adjacency, topology.fell_back


def _induced(local: LocalGraph, rows: Int[Tensor, " core"]) -> Adjacency:
    position = torch.full((local.graph.num_nodes,), -1, dtype=torch.int64, device=rows.device)
    position[rows] = torch.arange(rows.numel(), device=rows.device)
    edges = position[local.graph.edge_index]
    keep = (edges >= 0).all(0)
    return normalised_adjacency(edges[:, keep], rows.numel(), local.graph.edge_weight[keep])
