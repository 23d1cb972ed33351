from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.methods.fedgc.pseudo_labels import with_pseudo_labels
from fedtag.common.graph import Graph

NODES, CLASSES = 24, 3


def graph_of(seed: int) -> tuple[Graph, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    part = torch.randint(4, (NODES,), generator=generator)
    y = torch.randint(CLASSES, (NODES,), generator=generator)
    y[part == 3] = -1
    edges = torch.zeros(2, 0, dtype=torch.long)
    graph = Graph(torch.zeros(NODES, 2), edges, torch.zeros(0), y, part == 0, part == 1, part == 2, CLASSES)
    return graph, 3 * torch.randn(NODES, CLASSES, generator=generator)


@given(st.integers(0, 1000), st.floats(0, 1))
def test_only_nodes_of_no_split_that_the_model_is_sure_of_join(seed: int, confidence: float) -> None:
    graph, logits = graph_of(seed)
    set_aside = torch.rand(NODES, generator=torch.Generator().manual_seed(seed + 1)) < 0.3
    y, labelled = with_pseudo_labels(graph, logits, confidence, set_aside)
    for node in range(NODES):
        probability, predicted = logits[node].softmax(0).max(0)
        if graph.train_mask[node]:
            assert labelled[node]
            assert y[node] == graph.y[node]
        elif graph.val_mask[node] or graph.test_mask[node] or set_aside[node] or probability < confidence:
            assert not labelled[node]
            assert y[node] == -1
        else:
            assert labelled[node]
            assert y[node] == predicted
