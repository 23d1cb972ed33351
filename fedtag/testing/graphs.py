"""Tiny institutions: plain ones, and those that lack something, as real ones do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedtag.client.data.text_graph import NONE, TEST, TRAIN, VAL, TextGraph, canonical_edges

CLASSES = ("a", "b", "c")
WIDTH = 6
SPLITS = np.array([TRAIN, TRAIN, TRAIN, VAL, TEST], np.int8)


def tiny_graph(name: str, nodes: int = 60, seed: int = 0) -> TextGraph:
    """Three classes that features and edges tell apart, with nodes of each class in each split.

    Args:
        name: of the institution.
        nodes: at least 1.
        seed: of features and edges.
    """
    generator = np.random.default_rng(seed)
    labels = np.arange(nodes) % len(CLASSES)
    pairs = generator.integers(0, nodes, (4 * nodes, 2))
    alike = labels[pairs[:, 0]] == labels[pairs[:, 1]]
    pairs = pairs[alike | (generator.random(len(pairs)) < 0.1)]
    edges, weights, _, _ = canonical_edges(pairs, np.ones(len(pairs), np.float32), False)
    features = generator.standard_normal((nodes, WIDTH)).astype(np.float32)
    features[np.arange(nodes), labels] += 1
    return TextGraph(
        name=name,
        node_ids=tuple(range(nodes)),
        texts=tuple(f"text of node {row}" for row in range(nodes)),
        labels=labels.astype(np.int64),
        split=SPLITS[(np.arange(nodes) // len(CLASSES)) % len(SPLITS)],
        edges=edges,
        edge_weights=weights,
        classes=CLASSES,
        features=features,
    )


def federation(pooled: bool = False) -> list[TextGraph]:
    """Three institutions of different sizes; one where a method wants all in one place."""
    return [tiny_graph(f"site-{number}", 30 + 15 * number, number) for number in range(1 if pooled else 3)]


def without(graph: TextGraph, split: int) -> TextGraph:
    """The same graph without one of its splits; its nodes stay."""
    return replace(graph, split=np.where(graph.split == split, NONE, graph.split).astype(np.int8))


def odd_federation() -> list[TextGraph]:
    """A plain institution, and seven that lack something."""
    isolated, lonely = tiny_graph("isolated-nodes", 15, 3), tiny_graph("single", 1)
    return [
        tiny_graph("plain", 30),
        without(tiny_graph("no-training", 15, 1), TRAIN),
        replace(tiny_graph("one-class", 15, 2), labels=np.full(15, 1)),
        replace(isolated, edges=np.zeros((0, 2), np.int64), edge_weights=np.zeros(0, np.float32)),
        without(tiny_graph("no-test", 15, 4), TEST),
        without(tiny_graph("no-validation", 15, 5), VAL),
        lonely,
        replace(lonely, name="single-unlabelled", labels=np.array([-1]), split=np.array([NONE], np.int8)),
    ]


def of_one_class(graph: TextGraph) -> TextGraph:
    """The same graph, all of whose test nodes have the first class.

    A model that says one class of all nodes would not notice if classes moved on.
    """
    return replace(graph, labels=np.where(graph.split == TEST, 0, graph.labels))


def relabelled(graph: TextGraph, chosen: Mapping[str, NDArray[np.bool_]]) -> TextGraph:
    """The same graph with the labels of chosen nodes, by name of the institution, moved to the next class."""
    moved = (graph.labels + 1) % len(graph.classes)
    return replace(graph, labels=np.where(chosen[graph.name], moved, graph.labels))
