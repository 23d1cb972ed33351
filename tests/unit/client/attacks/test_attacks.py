from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedtag.client.attacks.attack import SHADOW, areas, attacked, measured
from fedtag.client.attacks.controls import dealt_groups, member_groups, never_seen, overfitted
from fedtag.client.attacks.population import Population, induced, population
from fedtag.client.attacks.shadow import ShadowAttacker
from fedtag.client.attacks.targets import Target, trained_on_sites
from fedtag.client.attacks.training import Recipe, posteriors, trained
from fedtag.client.data.sources import load_source
from fedtag.client.data.splitting import resplit
from fedtag.common.graph import Graph

SEEDS = tuple(range(10))


def test_an_overfitted_model_gives_its_members_away(people: Population) -> None:
    target = trained_on_sites("overfitted", people, Recipe(hidden=128, steps=300, weight_decay=0.0))
    scored = attacked(target, people, ShadowAttacker(people), SEEDS[:2])
    assert scored.member_accuracy.mean() > 0.95
    groups = member_groups(people)
    for scores in scored.scores.values():
        assert areas(scores, groups).mean() > 0.7
    assert areas(scored.scores["modified entropy"], groups).mean() >= 0.8
    assert set(scored.scores) == {"confidence", "entropy", "modified entropy", SHADOW}


def test_models_that_never_saw_the_data_say_nothing_of_members(noisy_graph: Callable[..., Graph]) -> None:
    """A split and a model of its own for every seed: only chance is left, and its mean is 0.5."""
    found = []
    for seed in SEEDS:
        graph, other = noisy_graph(seed), noisy_graph(100 + seed)
        people = population([graph], ["site"], seed)
        weights = trained(other, torch.zeros_like(other.train_mask), Recipe(), seed)
        told = posteriors(weights, graph)
        scored = attacked(
            Target("never seen", "trained", lambda _, told=told: told, Recipe(steps=40)),
            people,
            ShadowAttacker(people),
            (seed,),
        )
        found.append([areas(scores, member_groups(people))[0] for scores in scored.scores.values()])
    assert np.shape(found) == (10, 4)
    assert np.abs(np.mean(found, axis=0) - 0.5).max() <= 0.03


def test_the_controls_hold_on_a_graph_of_noise(people: Population) -> None:
    attacker = ShadowAttacker(people)
    known = overfitted(people, SEEDS[:2], 50)
    assert known.verdict == "holds"
    assert known.auc.mean >= 0.8
    dealt, unseen = never_seen(people, attacker, SEEDS[:3], 200)
    assert (dealt.name, unseen.name) == ("dealt", "never seen")
    assert dealt.verdict == "holds"
    assert dealt.auc.low <= dealt.auc.mean <= dealt.auc.high


def test_never_seen_models_show_a_difference_of_the_data(noisy_graph: Callable[..., Graph]) -> None:
    """Training nodes that are easier than test nodes are told apart by a model that saw none of them."""
    graph = noisy_graph(6)
    x = graph.x.clone()
    rows = graph.train_mask.nonzero().squeeze(1)
    x[rows, graph.y[rows]] += 6.0
    people = population([replace(graph, x=x)], ["site"], 0)
    dealt, unseen = never_seen(people, ShadowAttacker(people), SEEDS[:3], 200)
    assert unseen.verdict == "fails"
    assert unseen.auc.mean > 0.7
    assert dealt.verdict == "holds"


def test_without_spare_nodes_there_is_no_never_seen_model(noisy_graph: Callable[..., Graph]) -> None:
    graph = noisy_graph(7, train=200, test=280)
    people = population([graph], ["site"], 0)
    assert never_seen(people, ShadowAttacker(people), SEEDS, 10) == ()
    assert not ShadowAttacker(people).can_attack
    scored = attacked(
        trained_on_sites("plain", people, Recipe(steps=5)), people, ShadowAttacker(people), (0,)
    )
    assert SHADOW not in scored.scores


def test_deals_keep_the_members_classes(people: Population) -> None:
    generator = np.random.default_rng(0)
    true, dealt = member_groups(people), dealt_groups(people, generator)
    wanted = np.bincount(people.labels[true.members], minlength=3)
    assert np.bincount(people.labels[dealt.members], minlength=3).tolist() == wanted.tolist()
    assert not set(dealt.members) & set(dealt.others)
    assert set(dealt.members) | set(dealt.others) == set(true.members) | set(true.others)


def test_the_attacker_reads_shadow_nodes_only(people: Population) -> None:
    """Other labels, features and links of all other nodes make no difference to what it learns."""
    graph, shadow = people.graph, people.shadow
    other = replace(
        graph,
        x=torch.where(shadow[:, None], graph.x, 0.0),
        y=torch.where(shadow | graph.train_mask, graph.y, 0),
    )
    told = np.random.default_rng(0).dirichlet(np.ones(3), graph.num_nodes)
    recipe = Recipe(steps=10)
    one = ShadowAttacker(people).scores(told, recipe, 0)
    changed = Population(other.without_edges_of(~shadow), shadow, people.spare)
    assert np.array_equal(one, ShadowAttacker(changed).scores(told, recipe, 0))


def test_the_attack_model_learns_what_shadow_models_show(people: Population) -> None:
    """Where members are surer of themselves in the shadow world, surer nodes are called members."""
    attacker = ShadowAttacker(people)
    told = np.array([[0.9998, 0.0001, 0.0001], [0.4, 0.3, 0.3]])
    for seed in SEEDS[:3]:
        scores = attacker.scores(told, Recipe(), seed)
        assert scores[0] > 0.6
        assert scores[1] < 0.3


def test_measured_attacks_tell_low_rates_only_with_500_non_members(noisy_graph: Callable[..., Graph]) -> None:
    generator = np.random.default_rng(0)
    for test, told in ((180, False), (900, True)):
        people = population([noisy_graph(8, nodes=1200, test=test)], ["site"], 0)
        groups = member_groups(people)
        found = measured(generator.normal(size=(2, people.graph.num_nodes)), groups, 50, generator)
        assert (found.low_rate is not None) == told
        assert found.curve[-1] == pytest.approx(1)
        assert (np.diff(found.curve) >= 0).all()


def test_cora_a_gcn_without_defence_leaks_and_a_stranger_does_not(shared_data: Path) -> None:
    """Members are 20 nodes a class of a split drawn anew for every seed, so that only training tells them."""
    cora = load_source(str(shared_data / "graphs" / "planetoid_cora.npz")).graph
    leaks, strangers = [], []
    for seed in SEEDS:
        graph = resplit(cora, (0.05, 0.0, 0.4), seed)
        people = population([graph.to_graph(torch.from_numpy(graph.features))], ["cora"], seed)
        groups = member_groups(people)
        if seed < 2:
            told = trained_on_sites("plain", people, Recipe()).posteriors(seed)
            leaks.append(_confidence_area(told, people.labels, groups))
        alone = induced(people.graph, people.spare)
        counts = torch.rand(alone.num_nodes, generator=torch.Generator().manual_seed(seed)) < 0.15
        weights = trained(replace(alone, train_mask=counts), ~counts, Recipe(steps=50), seed)
        strangers.append(_confidence_area(posteriors(weights, people.graph), people.labels, groups))
    assert min(leaks) > 0.7
    assert abs(np.mean(strangers) - 0.5) <= 0.03


def _confidence_area(told: np.ndarray, labels: np.ndarray, groups: object) -> float:
    from fedtag.client.attacks.measures import area
    from fedtag.client.attacks.signals import modified_entropy

    scores = modified_entropy(told, labels)
    return area(scores[groups.members], scores[groups.others], groups.weights)  # type: ignore[attr-defined]
