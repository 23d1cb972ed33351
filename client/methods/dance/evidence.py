"""The evidence of some nodes: which neighbours and chunks a round keeps, and the vectors that they give.

What is kept is fixed for a round by the received model; the weights on it follow the trained model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from fedtag.client.methods.dance.selection import (
    attention,
    chunk_candidates,
    context,
    gather_scores,
    weighted_sum,
)
from fedtag.common.errors import DivergenceError
from fedtag.common.methods.dance.model import DanceModel, unit_mean_square
from fedtag.common.numerics.attention import entmax15_ragged, straight_through, top_budget
from fedtag.common.numerics.ragged import Ragged, stack


@dataclass(frozen=True)
class Texts:
    """A graph's frozen text vectors: `pooled` t [nodes, dim], unit `chunks` e, and where a node's chunks lie."""

    pooled: Float[Tensor, "nodes dim"]
    chunks: Float[Tensor, "chunks dim"]
    ptr: Int[Tensor, " pointers"]

    @cached_property
    def scaled(self) -> Float[Tensor, "nodes dim"]:
        """t at a root mean square of 1, which the keys of Eq. 5 are made of."""
        return unit_mean_square(self.pooled)


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

    @cached_property
    def selected_chunks(self) -> Ragged:
        """The kept chunks of each row."""
        return self.chunks.filter(self.kept_chunks)

    @cached_property
    def neighbours(self) -> Ragged:
        """The candidates of all hops, one hop's rows below the other's."""
        return stack(*self.hops)

    @cached_property
    def candidates(self) -> Ragged:
        """`neighbours`, and the rows of `chunks` below them."""
        return stack(self.neighbours, self.chunks)

    @cached_property
    def support(self) -> Bool[Tensor, " candidates"]:
        """Which of `candidates` the budgets keep."""
        return torch.cat([*self.kept, self.kept_chunks])

    @cached_property
    def compact_neighbours(self) -> tuple[Int[Tensor, " distinct"], Ragged]:
        """The distinct nodes among `neighbours`, and these as positions among them."""
        return self.neighbours.compact()


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


def select_with_vectors(
    model: DanceModel,
    g: Float[Tensor, "nodes hidden"],
    texts: Texts,
    rows: Int[Tensor, " rows"],
    hops: tuple[Ragged, ...],
    budgets: tuple[int, ...],
    chunk_budget: int,
) -> tuple[Evidence, EvidenceVectors]:
    """`select_evidence` and `evidence_vectors` by one model, which needs the scores once only."""
    evidence, shares = _scored(model, g, texts, rows, hops, budgets, chunk_budget)
    weights = straight_through(shares, evidence.support, evidence.candidates)
    return evidence, _vectors(model, texts, evidence, weights)


def kept_alone(evidence: Evidence, found: EvidenceVectors) -> tuple[Evidence, EvidenceVectors]:
    """The same without the candidates that the budgets do not keep."""
    hops = tuple(hop.filter(kept) for hop, kept in zip(evidence.hops, evidence.kept, strict=True))
    weights = tuple(weight[kept] for weight, kept in zip(found.neighbour_weights, evidence.kept, strict=True))
    all_kept = tuple(torch.ones_like(weight, dtype=torch.bool) for weight in weights)
    chunk_weights = found.chunk_weights[evidence.kept_chunks]
    every_chunk = torch.ones_like(chunk_weights, dtype=torch.bool)
    return (
        Evidence(evidence.rows, hops, all_kept, evidence.selected_chunks, every_chunk),
        EvidenceVectors(weights, chunk_weights, found.context, found.condensed),
    )


def joined_evidence(parts: Sequence[Evidence]) -> Evidence:
    """The rows of all parts, one part below the other."""
    hops, kept = (zip(*(getattr(part, name) for part in parts), strict=True) for name in ("hops", "kept"))
    return Evidence(
        torch.cat([part.rows for part in parts]),
        tuple(stack(*one) for one in hops),
        tuple(torch.cat(one) for one in kept),
        stack(*(part.chunks for part in parts)),
        torch.cat([part.kept_chunks for part in parts]),
    )


def joined_vectors(parts: Sequence[EvidenceVectors]) -> EvidenceVectors:
    """The same of weights and views."""
    weights = zip(*(part.neighbour_weights for part in parts), strict=True)
    rest = ([getattr(part, name) for part in parts] for name in ("chunk_weights", "context", "condensed"))
    return EvidenceVectors(tuple(torch.cat(one) for one in weights), *map(torch.cat, rest))


def _scored(
    model: DanceModel,
    g: Float[Tensor, "nodes hidden"],
    texts: Texts,
    rows: Int[Tensor, " rows"],
    hops: tuple[Ragged, ...],
    budgets: tuple[int, ...],
    chunk_budget: int,
) -> tuple[Evidence, Float[Tensor, " candidates"]]:
    """The evidence, and the entmax outputs of its candidates.

    Raises:
        DivergenceError: a score is not finite, so that nothing can be selected by them.
    """
    own, stacked = g[rows], stack(*hops)
    num_rows = own.shape[0]
    scores = _neighbour_scores(model, own, texts, stacked, stacked.compact())
    if not bool(scores.isfinite().all()):
        raise DivergenceError(
            "training diverged (the scores of neighbours are not finite): lower train.learning-rate or "
            "train.weight-decay, or scale the features down"
        )
    shares = entmax15_ragged(scores, stacked)
    most = torch.tensor(budgets, device=own.device).repeat_interleave(num_rows)
    kept = top_budget(shares, stacked, most)
    # The same nodes with one row for all hops.
    selected = Ragged.from_pairs(stacked.row[kept] % max(num_rows, 1), stacked.index[kept], num_rows)
    chunks = chunk_candidates(selected, texts.ptr)
    chunk_scores = gather_scores(model.chunk_queries(own), texts.chunks, chunks)
    chunk_shares = entmax15_ragged(chunk_scores, chunks)
    kept_chunks = top_budget(chunk_shares, chunks, chunk_budget)
    return Evidence(rows, hops, _split(kept, hops), chunks, kept_chunks), torch.cat([shares, chunk_shares])


def evidence_vectors(
    model: DanceModel, g: Float[Tensor, "nodes hidden"], texts: Texts, evidence: Evidence
) -> EvidenceVectors:
    """The context c (Eq. 7) and the condensed text t̃ (Eq. 9) of the rows; gradients reach the selection."""
    own, candidates = g[evidence.rows], evidence.candidates
    scores = _neighbour_scores(model, own, texts, evidence.neighbours, evidence.compact_neighbours)
    chunk_scores = gather_scores(model.chunk_queries(own), texts.chunks, evidence.chunks)
    # All candidates at once: the rows of a ragged layout do not touch each other.
    weights = attention(torch.cat([scores, chunk_scores]), candidates, evidence.support)
    return _vectors(model, texts, evidence, weights)


def _vectors(
    model: DanceModel, texts: Texts, evidence: Evidence, weights: Float[Tensor, " candidates"]
) -> EvidenceVectors:
    """The two views of the text that weights on the candidates give."""
    neighbour_weights, chunk_weights = _split(weights, (evidence.neighbours, evidence.chunks))
    return EvidenceVectors(
        _split(neighbour_weights, evidence.hops),
        chunk_weights,
        context(model.hop_logits, evidence.neighbours, neighbour_weights, texts.pooled),
        weighted_sum(chunk_weights, texts.chunks, evidence.chunks),
    )


def _neighbour_scores(
    model: DanceModel,
    own: Float[Tensor, "rows hidden"],
    texts: Texts,
    stacked: Ragged,
    compact: tuple[Int[Tensor, " distinct"], Ragged],
) -> Float[Tensor, " entries"]:
    """The scores (Eq. 5) of the candidates of all hops, one hop's rows below the other's."""
    nodes, positions = compact
    hops = stacked.num_rows // max(own.shape[0], 1)
    query = model.neighbour_queries(own).repeat(hops, 1)
    return gather_scores(query, model.neighbour_key(texts.scaled[nodes]), positions)


def _split(values: Shaped[Tensor, " entries"], parts: Sequence[Ragged]) -> tuple[Shaped[Tensor, " _"], ...]:
    """Values of stacked sets, for each part."""
    return values.split([part.index.numel() for part in parts])
