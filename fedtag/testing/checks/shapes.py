"""What a backbone makes of any graph."""

from __future__ import annotations

import torch

from fedtag.client.train.batches import Batching
from fedtag.client.train.passes import hidden_and_logits
from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
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


def parts_say_what_the_whole_says(subject: Subject) -> None:
    """Its stages over some nodes at a time, where it can be sampled."""
    name = subject.config.model.backbone
    if not BACKBONES.get(name).sampled:
        subject.waive("reads the whole graph at once")
    for nodes, edges in GRAPHS:
        model = initial_backbone(subject.config, WIDTH, len(CLASSES))
        pairs = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        x = torch.randn(nodes, WIDTH, generator=torch.Generator().manual_seed(0))
        adjacency = normalised_adjacency(pairs, nodes)
        whole, parts = (hidden_and_logits(model, x, adjacency, Batching(size)) for size in (0, 2))
        same = all(torch.allclose(one, other, atol=NEAR) for one, other in zip(whole, parts, strict=True))
        require(same, subject, "says something else of some nodes at a time: see `NodeClassifier.stages`")
