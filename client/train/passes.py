"""What a model says of every node: of the whole graph at once, or exactly the same layer by layer, in parts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.context.site_data import SiteData
from fedtag.client.train.batches import Batching, gathered, ready
from fedtag.client.train.neighbourhoods import Neighbourhoods, Subgraph
from fedtag.common.graph import Adjacency
from fedtag.common.models.classifier import NodeClassifier, Stage, Values, stages_of


def hidden_and_logits(
    model: NodeClassifier, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, batching: Batching
) -> tuple[Float[Tensor, "nodes hidden"], Float[Tensor, "nodes classes"]]:
    """`NodeClassifier.hidden_and_logits` of every node, without dropout; in parts there are no gradients.

    Each layer is computed for all nodes before the next one, for some nodes at a time with all of their neighbours, so
    that nothing is drawn, nothing is computed twice, and on the model's device lies one part of one layer.

    Args:
        model: on the device that computes.
        x: of every node, on any device.
        adjacency: on the same device as x.
        batching: how many nodes at a time.

    Returns:
        On the device of x.
    """
    if not batching.splits(x.shape[0]):
        return model.hidden_and_logits(x, adjacency)
    near = Neighbourhoods(adjacency)
    values: Values = (x,)
    with torch.no_grad():
        for stage in stages_of(model):
            values = _through(stage, values, near, batching.size, next(model.parameters()).device)
    return values[0], values[1]


def logits(
    model: NodeClassifier, x: Float[Tensor, "nodes inputs"], adjacency: Adjacency, batching: Batching
) -> Float[Tensor, "nodes classes"]:
    """The logits alone."""
    if not batching.splits(x.shape[0]):
        return model(x, adjacency)
    return hidden_and_logits(model, x, adjacency, batching)[1]


def said_by(model: object, data: SiteData, batching: Batching) -> tuple[Tensor | None, Tensor | None]:
    """The same of a site's nodes; None twice for what is no classifier of nodes."""
    if not isinstance(model, NodeClassifier):
        return None, None
    return hidden_and_logits(model, data.graph.x, data.adjacency, batching)


def _through(stage: Stage, values: Values, near: Neighbourhoods, size: int, device: torch.device) -> Values:
    nodes = torch.arange(values[0].shape[0], device=values[0].device)

    def gather(targets: Tensor) -> tuple[Subgraph, Values]:
        part = near.reached(targets, stage.hops)
        return part, tuple(gathered(value, part.nodes, device) for value in values)

    parts = []
    for part, inputs in ready(map(gather, nodes.split(size)), device):
        outputs = stage.apply(inputs, part.adjacency.to(device))
        parts.append([value[part.targets.to(device)].to(nodes.device) for value in outputs])
    return tuple(torch.cat(column) for column in zip(*parts, strict=True))
