"""What a backbone makes of any graph."""

from __future__ import annotations

import torch

from fedtag.common.graph import normalised_adjacency
from fedtag.common.models.assembly import initial_backbone
from fedtag.testing.graphs import CLASSES, WIDTH
from fedtag.testing.subject import Subject, require

GRAPHS: tuple[tuple[int, list[tuple[int, int]]], ...] = (
    (1, []),
    (5, []),
    (5, [(0, 1), (1, 0), (1, 2), (2, 1)]),
)
"""Numbers of nodes, with edges."""


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
