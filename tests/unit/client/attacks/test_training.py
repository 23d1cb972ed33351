from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedtag.client.attacks.population import Population, population
from fedtag.client.attacks.targets import DEFENCES, defended, released, trained_on_condensed
from fedtag.client.attacks.training import Recipe, noised, posteriors, trained
from fedtag.common.graph import Graph
from fedtag.common.synthetic.condensed import Condensed

SHORT = Recipe(hidden=8, steps=15)


def test_no_label_but_those_of_training_nodes_is_read(people: Population) -> None:
    graph = people.graph
    blind = replace(graph, y=torch.where(graph.train_mask, graph.y, 0))
    for recipe in (SHORT, replace(SHORT, penalty=0.5), replace(SHORT, pseudo_labels=True)):
        for one, other in zip(
            trained(graph, people.spare, recipe, 1), trained(blind, people.spare, recipe, 1), strict=True
        ):
            assert torch.equal(one, other)


def test_without_weight_the_penalty_changes_nothing(people: Population) -> None:
    """The two loops, one with gradients written out and one by autograd, are the same descent."""
    tiny = replace(SHORT, penalty=1e-12)
    for one, other in zip(
        trained(people.graph, people.spare, SHORT, 1),
        trained(people.graph, people.spare, tiny, 1),
        strict=True,
    ):
        assert torch.allclose(one, other, atol=2e-5)


def test_the_penalty_flattens_posteriors(people: Population) -> None:
    def squares(penalty: float) -> float:
        weights = trained(people.graph, people.spare, Recipe(penalty=penalty), 2)
        told = posteriors(weights, people.graph)[people.members.numpy()]
        return float((told**2).sum(1).mean())

    assert squares(1.0) < squares(0.3) < squares(0.0)
    assert squares(0.0) > 0.95


def test_noise_is_laplace_of_the_stated_scale() -> None:
    x = torch.zeros(400, 250)
    x[0, 0] = 3.0
    noise = (noised(x, 6.0, 5) - x).numpy()
    scale = 3.0 / 6.0
    assert abs(noise.mean()) < 5 * scale * np.sqrt(2 / noise.size)
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.02)
    # The share beyond t is exp(−t / scale): a normal of the same deviation would have a third as many.
    assert (np.abs(noise) > 4 * scale).mean() == pytest.approx(np.exp(-4), rel=0.1)
    assert torch.equal(noised(x, 6.0, 5), noised(x, 6.0, 5))
    assert not torch.equal(noised(x, 6.0, 5), noised(x, 6.0, 6))


def test_pseudo_labels_come_from_spare_nodes_only(people: Population) -> None:
    recipe = replace(SHORT, pseudo_labels=True)
    none = torch.zeros_like(people.spare)
    plain = trained(people.graph, none, SHORT, 3)
    assert all(torch.equal(a, b) for a, b in zip(plain, trained(people.graph, none, recipe, 3), strict=True))
    joined = trained(people.graph, people.spare, recipe, 3)
    assert not all(torch.equal(a, b) for a, b in zip(plain, joined, strict=True))


def test_posteriors_are_those_of_the_two_layers_written_out(people: Population) -> None:
    graph = people.graph
    weights = trained(graph, people.spare, SHORT, 4)
    w1, b1, w2, b2 = (w.double().numpy() for w in weights)
    n = graph.num_nodes
    dense = np.eye(n)
    dense[graph.edge_index[1], graph.edge_index[0]] = 1
    scale = 1 / np.sqrt(dense.sum(1))
    dense = scale[:, None] * dense * scale
    values = dense @ np.maximum(dense @ graph.x.double().numpy() @ w1 + b1, 0) @ w2 + b2
    expected = np.exp(values) / np.exp(values).sum(1, keepdims=True)
    told = posteriors(weights, graph)
    assert told.dtype == np.float64
    assert np.allclose(told, expected, atol=1e-5)


def test_targets_answer_alike_for_the_same_seed(people: Population) -> None:
    targets = defended(people)
    assert [target.name for target in targets] == list(DEFENCES)
    assert [target.name for target in targets if target.pseudo_labelled is not None] == ["PL"]
    first = targets[0]
    assert np.array_equal(first.posteriors(1), first.posteriors(1))
    assert not np.array_equal(first.posteriors(1), first.posteriors(2))


def test_a_released_model_is_the_same_for_every_seed() -> None:
    logits = torch.tensor([[0.0, 2.0], [50.0, 0.0]])
    target = released("fedavg", logits)
    assert np.array_equal(target.posteriors(0), target.posteriors(9))
    told = target.posteriors(0)
    assert told[0, 1] == pytest.approx(1 / (1 + np.exp(-2)))
    # In single precision it would be 0.
    assert told[1, 1] == pytest.approx(np.exp(-50))


def test_models_of_a_condensed_graph_learn_its_classes(
    noisy_graph: Callable[..., Graph],
) -> None:
    graph = noisy_graph(0)
    graph.x[torch.arange(graph.num_nodes), graph.y] += 3.0
    people = population([graph], ["site"], 0)
    means = torch.stack([graph.x[graph.train_mask & (graph.y == c)].mean(0) for c in range(3)])
    condensed = Condensed.without_links(means, torch.arange(3), copies=False)
    target = trained_on_condensed("raw features", "condensed", people, condensed, graph.x)
    told = target.posteriors(0)
    accuracy = float((told.argmax(1) == people.labels)[people.non_members.numpy()].mean())
    assert accuracy > 0.6
    other = trained_on_condensed("other features", "condensed", people, condensed, torch.zeros_like(graph.x))
    assert len(set(other.posteriors(0).argmax(1).tolist())) == 1
