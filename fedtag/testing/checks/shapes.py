"""What a backbone makes of any graph."""

from __future__ import annotations

import torch
from torch import Tensor

from fedtag.client.train.batches import Batching
from fedtag.client.train.passes import hidden_and_logits
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import load_parameters, parameters_of
from fedtag.common.models.spec import BACKBONES
from fedtag.testing.graphs import CLASSES, WIDTH
from fedtag.testing.subject import Subject, require

GRAPHS: tuple[tuple[int, list[tuple[int, int]]], ...] = (
    (1, []),
    (5, []),
    (5, [(0, 1), (1, 0), (1, 2), (2, 1)]),
)
"""Numbers of nodes, with edges."""
NEAR = 1e-5
LINKED = (5, torch.tensor([[0, 1, 1, 2, 0, 2], [1, 0, 2, 1, 2, 0]]))
"""Three nodes in a circle and two that are isolated."""


def any_graph_gives_finite_logits(subject: Subject) -> None:
    """Also one without edges, or of one node; and gradients flow."""
    for nodes, edges in GRAPHS:
        model = initial_backbone(subject.config, WIDTH, len(CLASSES))
        pairs = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        x, adjacency = torch.ones(nodes, WIDTH), normalised_adjacency(pairs, nodes)
        hidden, logits = model.hidden_and_logits(x, adjacency)
        shape = tuple(logits.shape)
        require(shape == (nodes, len(CLASSES)), subject, f"gives logits of the shape {list(shape)}")
        require(len(hidden) == nodes, subject, "gives another number of representations than of nodes")
        finite = bool(logits.isfinite().all())
        require(finite, subject, f"gives no finite logits on {nodes} nodes, {len(edges)} edges")
        logits.sum().backward()
        moved = [value for value in model.parameters() if value.grad is not None]
        require(moved, subject, "has no parameter with a gradient")


def the_order_of_nodes_does_not_matter(subject: Subject) -> None:
    """Renumbering the nodes renumbers what it says of them."""
    nodes, pairs = LINKED
    model, x = initial_backbone(subject.config, WIDTH, len(CLASSES)), drawn(nodes)
    order = torch.tensor([3, 1, 4, 2, 0])
    weight = 0.5 + torch.arange(pairs.shape[1]) / 4
    there = model(x, normalised_adjacency(pairs, nodes, weight))[order]
    here = model(x[order], normalised_adjacency(order.argsort()[pairs], nodes, weight))
    require(torch.allclose(here, there, atol=NEAR), subject, "says something else of nodes in another order")


def links_and_weights_matter_as_it_says(subject: Subject) -> None:
    """`reads_neighbours` and `reads_weights` of its specification are true."""
    nodes, pairs = LINKED
    model, x = initial_backbone(subject.config, WIDTH, len(CLASSES)), drawn(nodes)
    spec = BACKBONES.get(subject.config.model.backbone)
    weight = 0.5 + torch.arange(pairs.shape[1]) / 4
    plain, weighted, alone = (
        model(x, normalised_adjacency(*graph))
        for graph in ((pairs, nodes), (pairs, nodes, weight), (pairs[:, :0], nodes))
    )
    for trait, other in (("reads_weights", weighted), ("reads_neighbours", alone)):
        matters = not torch.allclose(plain, other, atol=NEAR)
        what = f"has {trait} = {getattr(spec, trait)} in its specification, and its logits say {matters}"
        require(matters == getattr(spec, trait), subject, what)


def its_parameters_are_all_that_it_is(subject: Subject) -> None:
    """A model with other values is the same one once it has what travels."""
    nodes, pairs = LINKED
    x, adjacency = drawn(nodes), normalised_adjacency(pairs, nodes)
    model, other = (initial_backbone(subject.config, WIDTH, len(CLASSES), seed) for seed in (0, 1))
    load_parameters(other, parameters_of(model))
    same = torch.equal(model(x, adjacency), other(x, adjacency))
    require(same, subject, "says something else with the same parameters and buffers")


def drawn(nodes: int) -> Tensor:
    """Features, always the same."""
    return torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(0))


def parts_say_what_the_whole_says(subject: Subject) -> None:
    """Its stages over some nodes at a time, where it can be sampled."""
    name = subject.config.model.backbone
    if not BACKBONES.get(name).sampled:
        subject.waive("reads the whole graph at once")
    for nodes, edges in GRAPHS:
        model = initial_backbone(subject.config, WIDTH, len(CLASSES))
        pairs = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        x = drawn(nodes)
        adjacency = normalised_adjacency(pairs, nodes)
        whole, parts = (hidden_and_logits(model, x, adjacency, Batching(size)) for size in (0, 2))
        same = all(torch.allclose(one, other, atol=NEAR) for one, other in zip(whole, parts, strict=True))
        require(same, subject, "says something else of some nodes at a time: see `NodeClassifier.stages`")
