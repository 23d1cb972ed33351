"""The core of a round as what a client trains a received model on."""

from __future__ import annotations

from typing import Any

import torch

from fedtag.client.condense.core.of_round import core_links, core_of_round
from fedtag.client.condense.core.prior import EvidencePrior
from fedtag.client.condense.synthetic.choice import smoothed
from fedtag.client.condense.synthetic.leak import single_rows
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.train.examples import Examples, label_weights
from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.classifier import NodeClassifier


@torch.no_grad()
def core_examples(
    model: NodeClassifier, data: SiteData, context: RunContext[Any]
) -> tuple[Examples, dict[str, Any]]:
    """DANCE's core without its fusion: real nodes with their own features, linked anew.

    Self-expression compares features propagated over two hops of the training graph. The fused features of DANCE have
    propagated ones in them; raw ones (a few words each) of nodes of the same class often have nothing in common. They
    choose links only: the model reads raw features, as it does where it is scored. Without selected chunks there is
    no evidence that two nodes belong together, so the prior is 0 for all pairs: candidates come by similarity alone,
    and all links pay the same price.

    True labels weigh 1 and pseudo-labels `pseudo-label-weight`, 0 by default: such nodes then only pass features on. A
    core without a training node is not trained on.

    Args:
        model: the received one.
        data: of the client.
        context: of the round.

    Returns:
        the examples; and `core` and `nodes`, its number of nodes and that of the original, `copied` and `close` of
        `leak`, `links`, the entries of the propagation matrix, and how these came about, see `core_links`.
    """
    graph, settings = data.training.graph, context.config.own(CoreConfig)
    with context.timed("condense"):
        z, logits = model.hidden_and_logits(graph.x, data.training.adjacency)
        core = core_of_round(data, context, settings, z, logits)
        nodes, trained = core.nodes, graph.train_mask[core.nodes]
        weight = label_weights(core.labels, trained, settings.pseudo_label_weight) * trained.any()
        adjacency = normalised_adjacency(graph.edge_index[:, :0], nodes.numel())
        made = {"fell_back": False}
        if bool(trained.any()):
            views = data.training.cached("smoothed features", lambda: smoothed(graph))[nodes]
            prior = EvidencePrior.without_evidence(nodes.numel(), views)
            adjacency, made = core_links(settings, graph, nodes, views, prior)
        own = graph.x[: data.sizes["nodes"]]
        single = data.cached("single rows", lambda: single_rows(own))
        reported = {
            "core": nodes.numel(),
            "nodes": own.shape[0],
            "copied": float(nodes.numel() > 0),
            # Nearer to a real node than another is what a copy is unless that node has a twin.
            "close": float(single[nodes].double().mean()) if nodes.numel() else 0.0,
            "links": adjacency.edge_index.shape[1],
            **made,
        }
    return Examples(graph.x[nodes], adjacency, core.labels, weight > 0, weight), reported
