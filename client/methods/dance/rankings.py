"""Orders of chunks for each target: the evidence, and the controls that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.evidence.faithfulness import DENSE, EVIDENCE, RANDOM, SELECTED
from fedtag.client.methods.dance.evidence import Evidence, EvidenceVectors
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.selection import chunk_candidates, gather_scores, hop_mixture
from fedtag.common.methods.dance.model import DanceModel
from fedtag.common.numerics.ragged import Ragged, merge, segment_rank, segment_softmax
from fedtag.common.randomness import numpy_generator


@dataclass(frozen=True)
class Rankings:
    """Chunks of each target, strongest first, and the sets that they were drawn from.

    Args:
        orders: by name, for each target as many chunks (rows of the bank) as its evidence has.
        neighbourhoods: of each target: itself and all of its first and second neighbours.
        sizes: by name, one number a target: how much was selected, beside how much there was.
    """

    orders: Mapping[str, tuple[tuple[int, ...], ...]]
    neighbourhoods: tuple[tuple[int, ...], ...]
    sizes: Mapping[str, Int[Tensor, " targets"]]


def rankings(
    model: DanceModel,
    local: LocalGraph,
    g: Float[Tensor, "nodes hidden"],
    evidence: Evidence,
    found: EvidenceVectors,
    tokens: Int[Tensor, " chunks"],
    seed: int,
    site: str,
) -> Rankings:
    """The orders of the evidence's targets.

    `evidence` by its weights. `random` and `selected_nodes`: drawn uniformly without replacement from all chunks
    of the candidates (the target, its neighbours, the second neighbours that selection scores) and from those
    of the selected nodes. `dense_attention`: from all chunks of the candidates by γ_ℓ · softmax over a hop's
    neighbours · softmax over all chunks, with the scores of the model and without any sparse gate.

    Args:
        model: that predicts.
        local: the full graph.
        g: hidden state of every node.
        evidence, found: of the targets, by the same model.
        tokens: of each chunk.
        seed, site: of the draws, which depend on them and on the target only.
    """
    rows = evidence.rows
    candidates = merge(*evidence.hops)
    chunks = chunk_candidates(candidates, local.texts.ptr)
    dense = _dense_weights(model, local, g, evidence, candidates, chunks)
    own = evidence.selected_chunks
    counts = own.width.tolist()
    chosen = _by_weight(own, found.chunk_weights[evidence.kept_chunks])
    pool, near = _sets(chunks), _sets(evidence.chunks)
    by_attention = _by_weight(chunks, dense)
    draws: dict[str, list[tuple[int, ...]]] = {RANDOM: [], SELECTED: []}
    for position, node in enumerate(rows.tolist()):
        for name, sets in ((RANDOM, pool), (SELECTED, near)):
            generator = numpy_generator(seed, "faithfulness", site, name, node)
            order = generator.permutation(len(sets[position]))[: counts[position]]
            draws[name].append(tuple(sets[position][place] for place in order.tolist()))
    around = merge(
        Ragged.singletons(rows), local.neighbours.select(rows), local.second_neighbours.select(rows)
    )
    selected_nodes = sum(
        (hop.filter(keep).width for hop, keep in zip(evidence.hops, evidence.kept, strict=True)),
        torch.zeros_like(rows),
    )
    everything = chunk_candidates(around, local.texts.ptr)
    return Rankings(
        {
            EVIDENCE: tuple(chosen),
            RANDOM: tuple(draws[RANDOM]),
            SELECTED: tuple(draws[SELECTED]),
            DENSE: tuple(order[:count] for order, count in zip(by_attention, counts, strict=True)),
        },
        tuple(_sets(around)),
        {
            "selected_nodes": selected_nodes,
            "selected_chunks": own.width,
            "selected_tokens": _total(own, tokens),
            "candidate_nodes": candidates.width,
            "candidate_chunks": chunks.width,
            "candidate_tokens": _total(chunks, tokens),
            "neighbourhood_nodes": around.width,
            "neighbourhood_chunks": everything.width,
            "neighbourhood_tokens": _total(everything, tokens),
        },
    )


def _dense_weights(
    model: DanceModel,
    local: LocalGraph,
    g: Float[Tensor, "nodes hidden"],
    evidence: Evidence,
    candidates: Ragged,
    chunks: Ragged,
) -> Float[Tensor, " entries"]:
    own, hops, texts = g[evidence.rows], evidence.hops, local.texts
    queries, keys = model.neighbour_queries(own), model.neighbour_keys(texts.pooled)
    mixture = hop_mixture(model.hop_logits, hops)
    shares = [
        segment_softmax(gather_scores(queries, keys, hop), hop.row, hop.ptr) * mixture[hop.row, number]
        for number, hop in enumerate(hops)
    ]
    # Hops are disjoint within a row, so that sorting by (row, node) gives the order of the union.
    row, node = torch.cat([hop.row for hop in hops]), torch.cat([hop.index for hop in hops])
    order = torch.argsort(row * local.graph.num_nodes + node)
    share = torch.cat(shares)[order]
    scores = gather_scores(model.chunk_queries(own), texts.chunks, chunks)
    within = segment_softmax(scores, chunks.row, chunks.ptr)
    return within * torch.repeat_interleave(share, texts.ptr.diff()[candidates.index])


def _by_weight(chunks: Ragged, weight: Float[Tensor, " entries"]) -> list[tuple[int, ...]]:
    """The chunks of each row by falling weight, ties by position."""
    place = chunks.ptr[chunks.row] + segment_rank(weight, chunks.ptr)
    return _sets(Ragged(chunks.ptr, torch.empty_like(chunks.index).scatter(0, place, chunks.index)))


def _sets(ragged: Ragged) -> list[tuple[int, ...]]:
    index, ptr = ragged.index.tolist(), ragged.ptr.tolist()
    return [tuple(index[start:end]) for start, end in pairwise(ptr)]


def _total(chunks: Ragged, tokens: Int[Tensor, " chunks"]) -> Int[Tensor, " rows"]:
    values = tokens.to(chunks.index.device).long()[chunks.index]
    return torch.zeros(chunks.num_rows, dtype=torch.int64, device=values.device).index_add(
        0, chunks.row, values
    )
