from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import entropy

from fedtag.client.methods.fedc4.collaboration.structure import degree_histogram, kullback_leibler, structure


def edges(graph: nx.Graph) -> torch.Tensor:
    pairs = torch.tensor(list(graph.edges)).T
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def test_figures_are_those_of_networkx() -> None:
    graph = nx.barbell_graph(5, 2)
    y = torch.tensor([0] * 6 + [1] * 6)
    found = structure(edges(graph), y)
    assert found.nodes == 12
    assert found.density == pytest.approx(nx.density(graph))
    same = np.mean([y[a] == y[b] for a, b in graph.edges])
    assert found.homophily == pytest.approx(same)
    assert found.degree_divergence is None


def test_degrees_are_compared_over_their_mean() -> None:
    star, cycle = nx.star_graph(6), nx.cycle_graph(40)
    reference = degree_histogram(edges(cycle), 40)
    assert reference is not None
    assert float(reference.sum()) == pytest.approx(1)
    assert structure(edges(nx.cycle_graph(9)), torch.zeros(9).long(), reference).degree_divergence == 0
    other = structure(edges(star), torch.zeros(7).long(), reference).degree_divergence
    assert other is not None
    assert other > 1
    own = degree_histogram(edges(star), 7)
    assert own is not None
    expected = entropy(reference.numpy() + 1e-3, own.numpy() + 1e-3)
    assert kullback_leibler(reference, own) == pytest.approx(expected)


def test_graphs_without_links_and_labels_have_no_such_figures() -> None:
    empty = structure(torch.empty(2, 0, dtype=torch.long), torch.tensor([0]), torch.ones(16).double() / 16)
    assert (empty.density, empty.homophily, empty.degree_divergence) == (0.0, None, None)
    unlabelled = structure(edges(nx.path_graph(3)), torch.tensor([-1, 0, -1]))
    assert unlabelled.homophily is None
