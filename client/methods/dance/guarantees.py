"""What DANCE promises of its evidence (Appendix D), checked on a trained model: budgets, truncation, margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.methods.dance.evidence import Evidence
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.selection import gather_scores, weighted_sum
from fedtag.common.methods.dance.model import DanceModel
from fedtag.common.numerics.attention import entmax15_ragged, straight_through
from fedtag.common.numerics.ragged import Ragged, segment_rank, segment_sum

_ROUNDING = 1e-5


@dataclass(frozen=True)
class Truncation:
    """What a hard budget changes in a weighted sum, for each row.

    Args:
        distance: ‖Σ p e - Σ Π_B(p) e‖.
        bound: 2 M δ, with M the largest ‖e‖ of the row's candidates and δ the weight that the budget drops.
        margin: of the scores, between the last that fits the budget and the next; infinite if all fit.
    """

    distance: Float[Tensor, " rows"]
    bound: Float[Tensor, " rows"]
    margin: Float[Tensor, " rows"]


def truncation(
    scores: Float[Tensor, " entries"],
    candidates: Ragged,
    values: Float[Tensor, "nodes dim"],
    kept: Tensor,
    budget: int,
) -> Truncation:
    """The effect of Π_B on entmax weights (Lemma D.5, Definition D.10).

    Args:
        scores: before entmax.
        candidates: ids into `values`.
        values: e, or t for neighbours.
        kept: which candidates the budget keeps.
        budget: B.
    """
    rows = candidates.num_rows
    p = entmax15_ragged(scores, candidates)
    projected = straight_through(p, kept, candidates)
    full = weighted_sum(p, values, candidates)
    length = values.norm(dim=1)[candidates.index]
    longest = length.new_zeros(rows).scatter_reduce(0, candidates.row, length, "amax")
    dropped = segment_sum(torch.where(kept, 0.0, p), candidates.ptr)
    rank = segment_rank(scores, candidates.ptr)
    last, following = (_at_rank(scores, candidates, rank, place) for place in (budget - 1, budget))
    open_margin = candidates.width > budget
    return Truncation(
        (full - weighted_sum(projected, values, candidates)).norm(dim=1),
        2 * longest * dropped,
        torch.where(open_margin, last - following, torch.inf),
    )


@torch.no_grad()
def guarantees(
    model: DanceModel, local: LocalGraph, g: Float[Tensor, "nodes hidden"], evidence: Evidence
) -> tuple[dict[str, Any], Float[Tensor, " rows"]]:
    """Counts and extremes over the rows of the evidence, and the margin of each row's chunk scores.

    Returns:
        for `chunks` and for the neighbours at `hop_1` and `hop_2`: nodes, most kept, budget, nodes over it, the
        largest and the mean distance, the mean bound, the largest share of its bound that a distance takes, nodes
        over the bound.
    """
    own, texts = g[evidence.rows], local.texts
    queries, keys = model.neighbour_queries(own), model.neighbour_keys(texts.pooled)
    found: dict[str, Any] = {}
    for number, (hop, kept) in enumerate(zip(evidence.hops, evidence.kept, strict=True)):
        if number:
            budget = local.budgets[number]
            effect = truncation(gather_scores(queries, keys, hop), hop, texts.pooled, kept, budget)
            found[f"hop_{number}"] = _told(effect, hop.filter(kept), budget)
    scores = gather_scores(model.chunk_queries(own), texts.chunks, evidence.chunks)
    budget = local.config.chunk_budget
    effect = truncation(scores, evidence.chunks, local.chunk_views, evidence.kept_chunks, budget)
    found["chunks"] = _told(effect, evidence.selected_chunks, budget)
    return found, effect.margin


def _told(effect: Truncation, selected: Ragged, budget: int) -> dict[str, Any]:
    taken = effect.distance / effect.bound.clamp_min(_ROUNDING)
    return {
        "nodes": selected.num_rows,
        "budget": budget,
        "most_kept": _largest(selected.width),
        "over_budget": int((selected.width > budget).sum()),
        "distance_mean": _mean(effect.distance),
        "distance_largest": _largest(effect.distance),
        "bound_mean": _mean(effect.bound),
        "share_of_bound_largest": _largest(torch.where(effect.distance > _ROUNDING, taken, 0.0)),
        "over_bound": int((effect.distance > effect.bound + _ROUNDING).sum()),
    }


def _at_rank(scores: Tensor, candidates: Ragged, rank: Tensor, place: int) -> Tensor:
    """The score at a rank of each row; 0 where the row is shorter, or the rank negative."""
    here = rank == place
    return scores.new_zeros(candidates.num_rows).index_copy(0, candidates.row[here], scores[here])


def _mean(values: Tensor) -> float:
    return round(float(values.double().mean()), 6) if values.numel() else 0.0


def _largest(values: Tensor) -> float | int:
    if not values.numel():
        return 0
    top = values.max().item()
    return top if isinstance(top, int) else round(float(top), 6)
