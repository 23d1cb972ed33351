"""Nodes of other clients that a client also holds, as copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.errors import ConfigError
from fedtag.common.randomness import numpy_generator


def overlap_rows(graph: TextGraph, assignment: Sequence[Rows], share: float, seed: int) -> tuple[Rows, ...]:
    """The foreign rows that each client gets a copy of, sorted.

    Client i gets round(share * own size) of them, at most all: first, in a seeded order, neighbours
    across the cut, then any others.

    Args:
        graph: the whole graph.
        assignment: own rows of each client.
        share: at least 0; 0.1 adds a tenth of a client's own nodes.
        seed: of the run.
    """
    if not (np.isfinite(share) and share >= 0):
        raise ConfigError(f"overlap is {share}; give a share of at least 0, e.g. 0.1.")
    copies = []
    for client, rows in enumerate(assignment):
        generator = numpy_generator(seed, "overlap", client)
        own = np.zeros(graph.num_nodes, bool)
        own[rows] = True
        ends = own[graph.edges]
        near = np.zeros(graph.num_nodes, bool)
        near[graph.edges[ends[:, 0] & ~ends[:, 1], 1]] = True
        near[graph.edges[ends[:, 1] & ~ends[:, 0], 0]] = True
        candidates = np.concatenate(
            [generator.permutation(np.flatnonzero(near)), generator.permutation(np.flatnonzero(~near & ~own))]
        )
        copies.append(np.sort(candidates[: round(share * len(rows))]))
    return tuple(copies)
