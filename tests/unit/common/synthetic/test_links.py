from __future__ import annotations

import torch

from fedtag.common.graph import normalised_adjacency
from fedtag.common.synthetic.adjacency import link_network, listed, normalised_links, thresholded
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.initial import gaussian_features, moments


def test_links_are_the_symmetrised_perceptron_of_every_pair() -> None:
    network = link_network(4, 6, torch.Generator().manual_seed(0))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    links = network(x)
    assert torch.equal(links, links.T)
    assert not links.diagonal().any()
    both = torch.cat([network.source.weight, network.target.weight], dim=1)
    for i in range(5):
        for j in range(5):
            if i != j:
                ways = [
                    network.output(torch.relu(both @ torch.cat(pair) + network.source.bias))
                    for pair in ((x[i], x[j]), (x[j], x[i]))
                ]
                torch.testing.assert_close(links[i, j], torch.sigmoid((ways[0] + ways[1]) / 2)[0])


def test_links_follow_their_nodes() -> None:
    network = link_network(4, 6, torch.Generator().manual_seed(0))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    order = torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(network(x[order]), network(x)[order][:, order])


def test_the_network_depends_on_its_generator_alone() -> None:
    state = torch.random.get_rng_state()
    one, other = (link_network(3, 4, torch.Generator().manual_seed(5)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_listed_links_propagate_as_the_dense_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    links = torch.rand(6, 6, generator=generator)
    links = thresholded((links + links.T) / 2 * (1 - torch.eye(6)), 0.5)
    assert bool(((links == 0) | (links > 0.5)).all())
    edge_index, edge_weight = listed(links)
    x = torch.randn(6, 3, generator=generator)
    sparse = normalised_adjacency(edge_index, 6, edge_weight).propagate(x)
    torch.testing.assert_close(sparse, normalised_links(links) @ x)


def test_features_have_the_moments_of_the_real_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    real = 3 + torch.randn(400, 5, generator=generator) * torch.tensor([0.0, 0.5, 1.0, 2.0, 4.0])
    mean, deviation = moments(real)
    drawn = gaussian_features(mean, deviation, 20_000, generator)
    torch.testing.assert_close(drawn.mean(0), mean, rtol=0.02, atol=0.1)
    torch.testing.assert_close(drawn.std(0), deviation, rtol=0.03, atol=0.0)


def test_a_single_real_row_is_not_drawn() -> None:
    for row in (torch.tensor([[1.0, -2.0, 3.0]]), torch.zeros(1, 3)):
        drawn = gaussian_features(*moments(row), 50, torch.Generator().manual_seed(0))
        assert bool((drawn != row).any(1).all())


def test_a_condensed_graph_is_a_graph_of_training_nodes() -> None:
    condensed = Condensed(
        torch.eye(3), torch.tensor([0, 2, 2]), torch.tensor([[0, 1], [1, 0]]), torch.tensor([0.5, 0.5]), False
    )
    graph = condensed.graph(4)
    assert graph.train_mask.all()
    assert not (graph.val_mask | graph.test_mask).any()
    torch.testing.assert_close(graph.adjacency().weight, condensed.adjacency.weight)
    again = Condensed.from_tensors(condensed.tensors, False)
    assert all(torch.equal(again.tensors[name], value) for name, value in condensed.tensors.items())
