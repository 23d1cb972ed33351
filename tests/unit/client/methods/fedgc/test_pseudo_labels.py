from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.methods.fedgc.pseudo_labels import surest_half, with_pseudo_labels
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


@given(st.integers(0, 1000))
def test_of_each_class_the_surer_half_joins_and_no_label_is_read(seed: int) -> None:
    graph, logits = graph_of(seed)
    set_aside = torch.rand(NODES, generator=torch.Generator().manual_seed(seed + 1)) < 0.3
    y, labelled = surest_half(graph, logits, set_aside)
    probability, predicted = logits.softmax(1).max(1)
    open_nodes = ~(graph.train_mask | graph.val_mask | graph.test_mask | set_aside)
    assert not bool((labelled & ~open_nodes).any())
    assert torch.equal(y, torch.where(labelled, predicted, -1))
    for label in range(CLASSES):
        own = open_nodes & (predicted == label)
        assert int((labelled & own).sum()) == (int(own.sum()) + 1) // 2
        if bool((own & ~labelled).any()):
            assert probability[own & labelled].min() >= probability[own & ~labelled].max()
    # Neither training nor validation nor test labels decide anything.
    again = surest_half(replace(graph, y=(graph.y + 1) % CLASSES), logits, set_aside)
    assert torch.equal(again[0], y)
