"""The core of a round by DANCE's settings: whom it has, how long it stays, what links it (sections 4.2 and 4.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from fedtag.client.condense.core.calibration import temperature
from fedtag.client.condense.core.members import Core, pseudo_labels, select_core
from fedtag.client.condense.core.prior import EvidencePrior
from fedtag.client.condense.core.topology import rebuild_topology
from fedtag.client.condense.synthetic.choice import induced
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.randomness import derive_seed, numpy_generator

KEPT = "core"
"""The name under which a core that outlives its round is remembered."""


def core_of_round(
    data: SiteData,
    context: RunContext[Any],
    settings: CoreConfig,
    z: Float[Tensor, "nodes hidden"],
    logits: Float[Tensor, "nodes classes"],
) -> Core:
    """The client's core in a round: a new one where a refresh is due, else the remembered one.

    A client that remembers none, since it missed the refresh, chooses one. How far the rotation is follows from the
    number of the round alone. Only nodes of the site's folder can be in it, no generated ones; where training is
    inductive, no test nodes.

    Args:
        data: of the client.
        context: of the round.
        settings: of the core.
        z: embedding of every node of the training graph by the received model.
        logits: of the same nodes by the same model.
    """
    config, name, graph = context.config, data.site.name, data.training.graph
    round_number, every, count = context.round, settings.core_refresh, data.sizes["nodes"]
    kept = None if due(round_number, every) else context.memory.remembered(KEPT)
    if kept is not None:
        nodes, labels = (kept.tensors[part].to(data.device) for part in ("nodes", "labels"))
        return Core(nodes, labels, nodes.numel() / count)
    core = choose_core(
        z[:count],
        logits[:count],
        torch.where(graph.train_mask, graph.y, -1)[:count],
        settings,
        num_classes=graph.num_classes,
        ratio=config.ratio,
        generator=numpy_generator(config.seed, round_number, name, "core"),
        rotation=derive_seed(config.seed, name, "rotation"),
        step=(round_number - 1) // every if every else 0,
        pace=curriculum_pace(round_number, settings.curriculum_rounds),
        hidden=graph.test_mask[:count] if config.train.inductive else None,
    )
    if every != 1:
        context.memory.remember({"nodes": core.nodes, "labels": core.labels}, {}, KEPT)
    return core


def choose_core(
    z: Float[Tensor, "nodes hidden"],
    logits: Float[Tensor, "nodes classes"],
    train_labels: Int[Tensor, " nodes"],
    settings: CoreConfig,
    *,
    num_classes: int,
    ratio: float,
    generator: np.random.Generator,
    rotation: int,
    step: int,
    pace: float,
    hidden: Bool[Tensor, " nodes"] | None = None,
) -> Core:
    """Label-aware node condensation.

    Args:
        z: node embeddings by the received model.
        logits: by the same model.
        train_labels: the label of each training node, -1 elsewhere; nothing else is known of labels.
        settings: policy, confidence, calibration, prototypes and the share of pseudo-labelled nodes.
        num_classes: C.
        ratio: share of the nodes.
        generator: for clustering and noise of this refresh.
        rotation: seed of the order in which training nodes take turns.
        step: number of refreshes before this one.
        pace: of the policy `curriculum`.
        hidden: nodes that must not be chosen, no training nodes; None: none.
    """
    trained = train_labels >= 0
    scaled = logits
    if settings.calibration == "temperature":
        scaled = logits / temperature(logits[trained], train_labels[trained])
    labels, _ = pseudo_labels(scaled.softmax(1), train_labels, settings.confidence)
    if hidden is not None:
        labels = torch.where(hidden, -1, labels)
    surprise = None
    if settings.core_policy == "curriculum":
        surprise = functional.cross_entropy(logits, labels.clamp(min=0), reduction="none")
    return select_core(
        z,
        labels,
        trained,
        num_classes=num_classes,
        ratio=ratio,
        policy=settings.core_policy,
        generator=generator,
        prototypes_per_class=settings.prototypes,
        rotation_seed=rotation,
        step=step,
        pseudo_share=settings.pseudo_share,
        surprise=surprise,
        pace=pace,
        hidden=hidden,
    )


@torch.no_grad()
def core_links(
    settings: CoreConfig,
    graph: Graph,
    nodes: Int[Tensor, " core"],
    x: Float[Tensor, "core dim"],
    prior: EvidencePrior,
) -> tuple[Adjacency, dict[str, bool]]:
    """The core's propagation matrix, and how it came about.

    `fell_back`: self-expression left no link and similarity stepped in; `approximate`, where there are
    candidates: they came from an index.

    Args:
        settings: kind of topology and its constants.
        graph: of which the core is a part.
        nodes: of the core, ascending.
        x: what self-expression compares.
        prior: over the same rows.
    """
    if settings.topology == "induced":
        return induced(graph, nodes).adjacency, {"fell_back": False}
    topology = rebuild_topology(
        x,
        prior,
        alpha=settings.reconstruction,
        beta=settings.sparsity,
        candidates=settings.candidates,
        neighbours=settings.degree,
        exact_rows=settings.exact_core,
    )
    return topology.adjacency, {"fell_back": topology.fell_back, "approximate": topology.approximate}


def curriculum_pace(round_number: int, rounds: int) -> float:
    """Share of each class that the policy `curriculum` may choose from: from a half to all, linearly."""
    return min(1.0, 0.5 + 0.5 * (round_number - 1) / rounds)


def due(round_number: int, every: int) -> bool:
    """Whether something that is refreshed every so many rounds, or only once, is due."""
    return round_number == 1 if every == 0 else (round_number - 1) % every == 0
