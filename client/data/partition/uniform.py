"""Nodes dealt out at random."""

from __future__ import annotations

import numpy as np

from fedtag.client.data.text_graph import Rows, TextGraph
from fedtag.common.randomness import numpy_generator


def at_random(graph: TextGraph, clients: int, seed: int) -> tuple[Rows, ...]:
    """A uniform partition whose sizes differ by at most one node."""
    shuffled = numpy_generator(seed, "partition", "random").permutation(graph.num_nodes)
    return tuple(np.sort(part) for part in np.array_split(shuffled, clients))
