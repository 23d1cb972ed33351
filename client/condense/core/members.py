"""The label-aware core: the few nodes that a client trains on in a round (DANCE, Alg. 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.condense.core.prototypes import cluster, prototype_scores
from fedtag.common.errors import ConfigError
from fedtag.common.numerics.quotas import class_quotas
from fedtag.common.numerics.ragged import Ragged, segment_rank

CorePolicy = Literal["top", "gumbel", "coverage", "rotate", "curriculum", "random"]


@dataclass(frozen=True, eq=False)
class Core:
    """Chosen nodes, ascending, with their label or pseudo-label (-1 only under the policy `random`).

    `effective_ratio` is the share of the graph's nodes that was taken.
    """

    nodes: Int[Tensor, " core"]
    labels: Int[Tensor, " core"]
    effective_ratio: float


def pseudo_labels(
    probabilities: Float[Tensor, "nodes classes"], train_labels: Int[Tensor, " nodes"], threshold: float
) -> tuple[Int[Tensor, " nodes"], Float[Tensor, " nodes"]]:
    """Labels and their confidence (Eq. 3).

    Args:
        probabilities: predictions of the received global model.
        train_labels: the label of each training node, -1 elsewhere; nothing else may enter.
        threshold: τ in [0, 1]; a prediction below it leaves its node unassigned.

    Returns:
        The label, -1 where unassigned, and the confidence π, 1 for a training node.
    """
    confidence, predicted = probabilities.max(dim=1)
    known = train_labels >= 0
    confident = torch.where(confidence >= threshold, predicted, -1)
    return torch.where(known, train_labels, confident), torch.where(known, 1.0, confidence)


def select_core(
    z: Float[Tensor, "nodes dim"],
    labels: Int[Tensor, " nodes"],
    train_mask: Bool[Tensor, " nodes"],
    *,
    num_classes: int,
    ratio: float,
    policy: CorePolicy,
    generator: np.random.Generator,
    prototypes_per_class: int = 10,
    temperature: float = 0.1,
    rotation_seed: int = 0,
    step: int = 0,
    pseudo_share: float = 0.0,
    surprise: Float[Tensor, " nodes"] | None = None,
    pace: float = 1.0,
    hidden: Bool[Tensor, " nodes"] | None = None,
) -> Core:
    """Chooses the core under a node budget, in proportion to the classes' sizes.

    The budget is min(max(⌈r n⌉, classes with a training node), assigned nodes). Under all policies but
    `random`, a class with training nodes contributes at least one of them.

    - `top`: the largest s_v of each class (the paper's rule), ties by id.
    - `gumbel`: the largest s_v / temperature + Gumbel noise.
    - `coverage`: the node nearest to each of K_c k-means centres of the class.
    - `rotate`: training nodes first, in consecutive windows of one seeded order. Quotas follow the
      training nodes of each class, which do not change during a run, so that step after step the
      windows meet and every training node is visited within ⌈n_c / K_c⌉ steps; places beyond all
      training nodes, and a share `pseudo_share` of all places, go to pseudo-labelled ones by s_v.
    - `curriculum`: the same over the share `pace` of each class's training nodes with the least surprise.
    - `random`: uniform over all nodes of the graph but hidden ones, whatever their class (an ablation).

    Args:
        z: node embeddings of the received global model.
        labels: from `pseudo_labels`.
        train_mask: training nodes.
        num_classes: C.
        ratio: r in (0, 1].
        policy: one of the above.
        generator: draws of this refresh (clustering, noise).
        prototypes_per_class: P >= 1.
        temperature: of `gumbel`, > 0; larger is closer to uniform.
        rotation_seed: of `rotate` and `curriculum`; the same for all refreshes of a run.
        step: of `rotate` and `curriculum`; the number of the refresh, >= 0.
        pseudo_share: of `rotate` and `curriculum`, in [0, 1].
        surprise: of `curriculum`, which needs it; cross-entropy of each training node's label, other entries are
            not read.
        pace: of `curriculum`, in (0, 1].
        hidden: nodes without a label that must not be chosen; None: none. They count for the budget.

    Raises:
        ConfigError: the policy is unknown, or the ratio out of its range.
        ValueError: the policy is `curriculum`, and there is no surprise to order by.
    """
    if policy not in get_args(CorePolicy):
        choices = ", ".join(get_args(CorePolicy))
        raise ConfigError(
            f"dance.core-policy is '{policy}', but must be one of {choices}; choose one of these."
        )
    if not 0.0 < ratio <= 1.0:
        raise ConfigError(f"the ratio is {ratio}, but must lie in (0, 1]; give the share of nodes to keep.")
    num_nodes = z.shape[0]
    budget = math.ceil(ratio * num_nodes - 1e-9)  # 0.07 * 100 is 7.000000000000001
    assigned = labels >= 0
    train = train_mask & assigned
    sizes = torch.bincount(labels[assigned], minlength=num_classes)
    train_sizes = torch.bincount(labels[train], minlength=num_classes)
    quotas = class_quotas(sizes, budget, train_sizes > 0)

    if policy == "random":
        chosen = torch.as_tensor(generator.permutation(num_nodes), device=labels.device)
        if hidden is not None:
            chosen = chosen[~hidden[chosen]]
        chosen = chosen[: int(quotas.sum())]
    elif policy in ("rotate", "curriculum"):
        places = int(quotas.sum())
        pseudo_places = min(math.floor(pseudo_share * places), int((sizes - train_sizes).sum()))
        windows = class_quotas(train_sizes, places - pseudo_places, train_sizes > 0)
        order = torch.as_tensor(np.random.default_rng(rotation_seed).random(num_nodes), device=labels.device)
        pool = train
        if policy == "curriculum":
            if surprise is None:
                raise ValueError("the policy curriculum orders nodes by surprise: pass it, or use rotate")
            pool = _easiest(labels, train, surprise, windows, pace)
        chosen = _rotation(labels, pool, windows, order, step)
        if places > chosen.numel():
            spare = class_quotas(
                sizes - train_sizes, places - chosen.numel(), torch.zeros_like(train_sizes > 0)
            )
            scores = prototype_scores(z, labels, num_classes, prototypes_per_class, generator)
            chosen = torch.cat([chosen, _best_of_classes(scores, labels, assigned & ~train, spare)])
    else:
        if policy == "coverage":
            scores = _coverage_scores(z, labels, quotas, generator)
        else:
            scores = prototype_scores(z, labels, num_classes, prototypes_per_class, generator)
        if policy == "gumbel":
            noise = torch.as_tensor(generator.gumbel(size=num_nodes), device=z.device)
            scores = scores / temperature + noise
        scores = _lead_of_training(scores, labels, train, num_classes)
        chosen = _best_of_classes(scores, labels, assigned, quotas)

    nodes = chosen.sort().values
    return Core(nodes, labels[nodes], nodes.numel() / max(num_nodes, 1))


def _by_class(labels: Int[Tensor, " nodes"], candidates: Bool[Tensor, " nodes"], num_classes: int) -> Ragged:
    """The candidate nodes of each class."""
    nodes = candidates.nonzero().squeeze(1)
    return Ragged.from_pairs(labels[nodes], nodes, num_classes)


def _best_of_classes(
    scores: Float[Tensor, " nodes"],
    labels: Int[Tensor, " nodes"],
    candidates: Bool[Tensor, " nodes"],
    quotas: Int[Tensor, " classes"],
) -> Int[Tensor, " chosen"]:
    """The quota of largest scores of each class, ties by id."""
    members = _by_class(labels, candidates, quotas.numel())
    rank = segment_rank(scores[members.index], members.ptr)
    return members.index[rank < quotas[members.row]]


def _lead_of_training(
    scores: Float[Tensor, " nodes"],
    labels: Int[Tensor, " nodes"],
    train: Bool[Tensor, " nodes"],
    num_classes: int,
) -> Float[Tensor, " nodes"]:
    """The scores with the best training node of each class put first.

    A choice by score that has a training node anyway has this one, and stays as it is.
    """
    lead = _best_of_classes(scores, labels, train, labels.new_ones(num_classes))
    return scores.index_fill(0, lead, torch.inf)


def _coverage_scores(
    z: Float[Tensor, "nodes dim"],
    labels: Int[Tensor, " nodes"],
    quotas: Int[Tensor, " classes"],
    generator: np.random.Generator,
) -> Float[Tensor, " nodes"]:
    """Minus the place of each node when the nearest of every cluster come first, then the second, …

    The first K_c are one node for each centre; where clusters are empty, runners-up fill the quota.
    """
    scores = z.new_full((z.shape[0],), -torch.inf, dtype=torch.float64)
    for label, quota in enumerate(quotas.tolist()):
        if quota == 0:
            continue
        members = (labels == label).nonzero().squeeze(1)
        centres, assignment = cluster(z[members], quota, generator)
        distance = (z[members] - centres[assignment]).norm(dim=1)
        groups = Ragged.from_pairs(assignment, torch.arange(members.numel(), device=z.device), quota)
        place = segment_rank(-distance[groups.index], groups.ptr)
        position = torch.empty_like(place).scatter(0, groups.index, place)
        order = torch.sort(distance, stable=True).indices
        order = order[torch.sort(position[order], stable=True).indices]
        scores[members[order]] = -torch.arange(members.numel(), device=z.device, dtype=torch.float64)
    return scores


def _easiest(
    labels: Int[Tensor, " nodes"],
    train: Bool[Tensor, " nodes"],
    surprise: Float[Tensor, " nodes"],
    windows: Int[Tensor, " classes"],
    pace: float,
) -> Bool[Tensor, " nodes"]:
    """The training nodes with the least surprise: a share `pace` of each class, and at least its window."""
    sizes = torch.bincount(labels[train], minlength=windows.numel())
    quotas = torch.maximum((pace * sizes).ceil().long(), windows)
    easy = torch.zeros_like(train)
    easy[_best_of_classes(-surprise, labels, train, quotas)] = True
    return easy


def _rotation(
    labels: Int[Tensor, " nodes"],
    train: Bool[Tensor, " nodes"],
    windows: Int[Tensor, " classes"],
    order: Float[Tensor, " nodes"],
    step: int,
) -> Int[Tensor, " chosen"]:
    """The training nodes of each class that lie in the window number `step` of its order."""
    members = _by_class(labels, train, windows.numel())
    rank = segment_rank(order[members.index], members.ptr)
    size, window = members.width[members.row], windows[members.row]
    return members.index[(rank - step * window) % size < window]
