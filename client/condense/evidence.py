"""The evidence of some nodes: which neighbours and chunks a round keeps, and the vectors that they give.

What is kept is fixed for a round by the received model; the weights on it follow the trained model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from client.condense.selection import (
    attention,
    choose,
    chunk_candidates,
    context,
    gather_scores,
    weighted_sum,
)
from common.models.dance import DanceModel
from common.ragged import Ragged, merge


@dataclass(frozen=True)
class Texts:
    """A graph's frozen text vectors: `pooled` t [nodes, dim], unit `chunks` e, and where a node's chunks lie."""

    pooled: Float[Tensor, "nodes dim"]
    chunks: Float[Tensor, "chunks dim"]
    ptr: Int[Tensor, " pointers"]


@dataclass(frozen=True)
class Evidence:
    """Candidates and choices for the nodes `rows`.

    Args:
        rows: node ids.
        hops: for hop 0, 1 and 2 the candidate nodes of each row.
        kept: which of them the budgets keep.
        chunks: candidate chunks of each row, those of the kept nodes.
        kept_chunks: which of them the budget keeps.
    """

    rows: Int[Tensor, " rows"]
    hops: tuple[Ragged, ...]
    kept: tuple[Bool[Tensor, " _"], ...]
    chunks: Ragged
    kept_chunks: Bool[Tensor, " entries"]

    @property
    def selected_chunks(self) -> Ragged:
        """The kept chunks of each row."""
        return self.chunks.filter(self.kept_chunks)


@dataclass(frozen=True)
class EvidenceVectors:
    """Weights on the candidates, 0 where nothing is kept, and the two views of the text that they give."""

    neighbour_weights: tuple[Float[Tensor, " _"], ...]
    chunk_weights: Float[Tensor, " entries"]
    context: Float[Tensor, "rows dim"]
    condensed: Float[Tensor, "rows dim"]


def select_evidence(
    model: DanceModel,
    g: Float[Tensor, "nodes hidden"],
    texts: Texts,
    rows: Int[Tensor, " rows"],
    hops: tuple[Ragged, ...],
    budgets: tuple[int, ...],
    chunk_budget: int,
) -> Evidence:
    """Keep the strongest neighbours and chunks (DANCE, Eq. 5, 6, 8).

    Args:
        model: the received global model.
        g: hidden state of every node on the original graph.
        texts: of every node.
        rows: the nodes whose evidence is wanted.
        hops: candidates of these rows for each hop, the first being the nodes themselves.
        budgets: most neighbours kept, for each hop.
        chunk_budget: most chunks kept.
    """
    with torch.no_grad():
        query = model.neighbour_queries(g[rows])
        scores = [_neighbour_scores(model, query, texts, hop) for hop in hops]
        kept = tuple(
            choose(score, hop, budget) for score, hop, budget in zip(scores, hops, budgets, strict=True)
        )
        selected = merge(*(hop.filter(keep) for hop, keep in zip(hops, kept, strict=True)))
        chunks = chunk_candidates(selected, texts.ptr)
        chunk_scores = gather_scores(model.chunk_queries(g[rows]), texts.chunks, chunks)
        return Evidence(rows, hops, kept, chunks, choose(chunk_scores, chunks, chunk_budget))


def evidence_vectors(
    model: DanceModel, g: Float[Tensor, "nodes hidden"], texts: Texts, evidence: Evidence
) -> EvidenceVectors:
    """The context c (Eq. 7) and the condensed text t̃ (Eq. 9) of the rows; gradients reach the selection."""
    query = model.neighbour_queries(g[evidence.rows])
    weights = tuple(
        attention(_neighbour_scores(model, query, texts, hop), hop, kept)
        for hop, kept in zip(evidence.hops, evidence.kept, strict=True)
    )
    chunk_scores = gather_scores(model.chunk_queries(g[evidence.rows]), texts.chunks, evidence.chunks)
    chunk_weights = attention(chunk_scores, evidence.chunks, evidence.kept_chunks)
    return EvidenceVectors(
        weights,
        chunk_weights,
        context(model.hop_logits, evidence.hops, weights, texts.pooled),
        weighted_sum(chunk_weights, texts.chunks, evidence.chunks),
    )


def _neighbour_scores(
    model: DanceModel, query: Float[Tensor, "rows hidden"], texts: Texts, hop: Ragged
) -> Float[Tensor, " entries"]:
    nodes, local = hop.compact()
    return gather_scores(query, model.neighbour_keys(texts.pooled[nodes]), local)
