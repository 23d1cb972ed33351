"""The evidence of some nodes: which neighbours and chunks a round keeps, and the vectors that they give.

What is kept is fixed for a round by the received model; the weights on it follow the trained model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from client.condense.selection import (
    attention,
    chunk_candidates,
    context,
    gather_scores,
    weighted_sum,
)
from common.models.dance import DanceModel
from common.ragged import Ragged, merge, stack
from common.sparse_attention import entmax15_ragged, straight_through, top_budget


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
        return _scored(model, g, texts, rows, hops, budgets, chunk_budget)[0]


@torch.no_grad()
def select_with_vectors(
    model: DanceModel,
    g: Float[Tensor, "nodes hidden"],
    texts: Texts,
    rows: Int[Tensor, " rows"],
    hops: tuple[Ragged, ...],
    budgets: tuple[int, ...],
    chunk_budget: int,
) -> tuple[Evidence, EvidenceVectors]:
    """`select_evidence` and `evidence_vectors` by one model, which needs the scores once only; no gradient."""
    evidence, shares, chunk_shares = _scored(model, g, texts, rows, hops, budgets, chunk_budget)
    weights = tuple(
        straight_through(share, keep, hop.ptr)
        for share, keep, hop in zip(shares, evidence.kept, hops, strict=True)
    )
    chunk_weights = straight_through(chunk_shares, evidence.kept_chunks, evidence.chunks.ptr)
    return evidence, _vectors(model, texts, evidence, weights, chunk_weights)


def _scored(
    model: DanceModel,
    g: Float[Tensor, "nodes hidden"],
    texts: Texts,
    rows: Int[Tensor, " rows"],
    hops: tuple[Ragged, ...],
    budgets: tuple[int, ...],
    chunk_budget: int,
) -> tuple[Evidence, tuple[Tensor, ...], Tensor]:
    """The evidence, and the entmax outputs of all candidates of each hop and of the chunks."""
    stacked = stack(*hops)
    scores = _neighbour_scores(model, g[rows], texts, stacked, len(hops))
    shares = _split(entmax15_ragged(scores, stacked.ptr), hops)
    kept = tuple(
        top_budget(share, hop.ptr, budget) for share, hop, budget in zip(shares, hops, budgets, strict=True)
    )
    selected = merge(*(hop.filter(keep) for hop, keep in zip(hops, kept, strict=True)))
    chunks = chunk_candidates(selected, texts.ptr)
    chunk_scores = gather_scores(model.chunk_queries(g[rows]), texts.chunks, chunks)
    chunk_shares = entmax15_ragged(chunk_scores, chunks.ptr)
    kept_chunks = top_budget(chunk_shares, chunks.ptr, chunk_budget)
    return Evidence(rows, hops, kept, chunks, kept_chunks), shares, chunk_shares


def evidence_vectors(
    model: DanceModel, g: Float[Tensor, "nodes hidden"], texts: Texts, evidence: Evidence
) -> EvidenceVectors:
    """The context c (Eq. 7) and the condensed text t̃ (Eq. 9) of the rows; gradients reach the selection."""
    own, hops, chunks = g[evidence.rows], evidence.hops, evidence.chunks
    scores = _neighbour_scores(model, own, texts, stack(*hops), len(hops))
    chunk_scores = gather_scores(model.chunk_queries(own), texts.chunks, chunks)
    # All candidates at once: the rows of a ragged layout do not touch each other.
    parts = (*hops, chunks)
    joint = attention(
        torch.cat([scores, chunk_scores]), stack(*parts), torch.cat([*evidence.kept, evidence.kept_chunks])
    )
    *weights, chunk_weights = _split(joint, parts)
    return _vectors(model, texts, evidence, tuple(weights), chunk_weights)


def _vectors(
    model: DanceModel,
    texts: Texts,
    evidence: Evidence,
    weights: tuple[Float[Tensor, " _"], ...],
    chunk_weights: Float[Tensor, " entries"],
) -> EvidenceVectors:
    """The two views of the text that weights on the candidates give."""
    return EvidenceVectors(
        weights,
        chunk_weights,
        context(model.hop_logits, evidence.hops, weights, texts.pooled),
        weighted_sum(chunk_weights, texts.chunks, evidence.chunks),
    )


def _neighbour_scores(
    model: DanceModel, own: Float[Tensor, "rows hidden"], texts: Texts, stacked: Ragged, hops: int
) -> Float[Tensor, " entries"]:
    """The scores (Eq. 5) of the candidates of all hops, one hop's rows below the other's."""
    nodes, local = stacked.compact()
    query = model.neighbour_queries(own).repeat(hops, 1)
    return gather_scores(query, model.neighbour_keys(texts.pooled[nodes]), local)


def _split(values: Float[Tensor, " entries"], parts: Sequence[Ragged]) -> tuple[Float[Tensor, " _"], ...]:
    """Values of stacked sets, for each part."""
    return values.split([part.index.numel() for part in parts])
