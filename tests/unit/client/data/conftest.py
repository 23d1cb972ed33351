from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fedtag.client.data.text_graph import TextGraph, canonical_edges

MakeGraph = Callable[..., TextGraph]


@pytest.fixture(scope="session")
def make_graph() -> MakeGraph:
    """A planted-partition graph: dense blocks, few edges between them, labels by block."""

    def build(
        blocks: int = 6, size: int = 20, seed: int = 0, directed: bool = False, unlabelled: int = 0
    ) -> TextGraph:
        rng = np.random.default_rng(seed)
        n = blocks * size
        block = np.repeat(np.arange(blocks), size)
        chance = np.where(block[:, None] == block[None, :], 0.4, 0.01)
        pairs = np.argwhere(rng.random((n, n)) < chance)
        weights = rng.integers(1, 5, len(pairs)).astype(np.float32)
        edges, weights, _, _ = canonical_edges(pairs, weights, directed)
        labels = block % 3
        labels[rng.permutation(n)[:unlabelled]] = -1
        return TextGraph(
            name="planted",
            node_ids=tuple(f"n{row:04d}" for row in range(n)),
            texts=tuple(f"text of {row}" for row in range(n)),
            labels=labels.astype(np.int64),
            split=np.zeros(n, np.int8),
            edges=edges,
            edge_weights=weights,
            classes=("a", "b", "c"),
            directed=directed,
        )

    return build
