from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import MiniBatchKMeans

from fedtag.client.condense.core.members import Core, CorePolicy, pseudo_labels, select_core
from fedtag.client.condense.core.prototypes import cluster, prototype_scores
from fedtag.common.errors import ConfigError
from fedtag.common.numerics.quotas import class_quotas

POLICIES: list[CorePolicy] = ["top", "gumbel", "coverage", "rotate", "curriculum", "random"]


def site(
    nodes: int, num_classes: int, seed: int, train_share: float = 0.5
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    truth = torch.randint(num_classes, (nodes,), generator=generator)
    z = torch.randn(num_classes, 8, generator=generator)[truth] + torch.randn(nodes, 8, generator=generator)
    labels = torch.where(torch.rand(nodes, generator=generator) < 0.2, -1, truth)
    train = (torch.rand(nodes, generator=generator) < train_share) & (labels >= 0)
    return z, labels, train


def core_of(
    z: torch.Tensor, labels: torch.Tensor, train: torch.Tensor, policy: CorePolicy, ratio: float, **more: Any
) -> Core:
    seed = np.random.default_rng(3)
    if policy == "curriculum":
        more = {"surprise": z[:, 0], **more}
    return select_core(z, labels, train, num_classes=5, ratio=ratio, policy=policy, generator=seed, **more)


def test_pseudo_labels() -> None:
    p = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8], [0.6, 0.4]])
    labels, confidence = pseudo_labels(p, torch.tensor([1, -1, -1, 0]), 0.8)
    assert labels.tolist() == [1, -1, 1, 0]
    torch.testing.assert_close(confidence, torch.tensor([1.0, 0.7, 0.8, 1.0]))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 60), st.integers(0, 10_000), st.sampled_from([0.02, 0.3, 1.0]), st.sampled_from(POLICIES)
)
def test_budget_quotas_and_training_nodes(nodes: int, seed: int, ratio: float, policy: CorePolicy) -> None:
    z, labels, train = site(nodes, 5, seed, train_share=0.2)
    core = core_of(z, labels, train, policy, ratio, prototypes_per_class=3)
    with_training = set(labels[train].tolist())
    places = min(max(math.ceil(ratio * nodes), len(with_training)), int((labels >= 0).sum()))
    assert core.nodes.tolist() == sorted(set(core.nodes.tolist()))
    assert core.nodes.numel() == places
    assert core.effective_ratio == pytest.approx(places / nodes)
    assert torch.equal(core.labels, labels[core.nodes])
    if policy != "random":
        assert bool((core.labels >= 0).all())
        assert set(core.labels[train[core.nodes]].tolist()) == with_training
    if policy in ("top", "gumbel", "coverage"):
        sizes = torch.bincount(labels[labels >= 0], minlength=5)
        required = torch.bincount(labels[train], minlength=5) > 0
        quotas = class_quotas(sizes, math.ceil(ratio * nodes), required)
        assert torch.equal(torch.bincount(core.labels, minlength=5), quotas)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.integers(0, 10_000), st.sampled_from([0.1, 1.0]), st.sampled_from(POLICIES))
def test_hidden_nodes_are_never_chosen(nodes: int, seed: int, ratio: float, policy: CorePolicy) -> None:
    z, labels, train = site(nodes, 5, seed, train_share=0.2)
    hidden = ~train & (torch.arange(nodes) % 2 == 0)
    labels = torch.where(hidden, -1, labels)
    core = core_of(z, labels, train, policy, ratio, hidden=hidden)
    assert not bool(hidden[core.nodes].any())
    assert core.effective_ratio == pytest.approx(core.nodes.numel() / nodes)
    if policy != "random":
        assert torch.equal(core.nodes, core_of(z, labels, train, policy, ratio).nodes)


def test_top_takes_the_largest_cosine_with_ties_by_id() -> None:
    z, labels, _ = site(40, 5, 1)
    train = labels >= 0
    core = core_of(z, labels, train, "top", 0.25, prototypes_per_class=2)
    scores = prototype_scores(z, labels, 5, 2, np.random.default_rng(3))
    for label in range(5):
        members = (labels == label).nonzero().flatten().tolist()
        chosen = core.nodes[core.labels == label].tolist()
        order = sorted(members, key=lambda v: (-scores[v].item(), v))
        assert chosen == sorted(order[: len(chosen)])
    same = core_of(
        torch.ones(40, 4), torch.zeros(40, dtype=torch.long), torch.ones(40, dtype=torch.bool), "top", 0.1
    )
    assert same.nodes.tolist() == [0, 1, 2, 3]


def test_coverage_has_a_node_in_every_blob() -> None:
    generator = torch.Generator().manual_seed(0)
    blob = torch.arange(6).repeat_interleave(20)
    z = 50 * torch.eye(6)[blob] + torch.randn(120, 6, generator=generator)
    labels = torch.zeros(120, dtype=torch.long)
    core = core_of(z, labels, labels == 0, "coverage", 0.05)
    assert sorted(blob[core.nodes].tolist()) == list(range(6))


@pytest.mark.parametrize("ratio", [0.02, 0.08, 0.7])
def test_rotation_visits_every_training_node_in_the_fewest_steps(ratio: float) -> None:
    z, labels, train = site(500, 5, 7)
    first = core_of(z, labels, train, "rotate", ratio, rotation_seed=4)
    size = torch.bincount(labels[train], minlength=5)
    window = torch.bincount(first.labels[train[first.nodes]], minlength=5)
    for start in (0, 13):
        seen: set[int] = set()
        for step in range(start, start + math.ceil(float((size / window).max()))):
            # Pseudo-labels move from round to round; the windows do not depend on them.
            moved = torch.where(train, labels, site(500, 5, step)[1])
            core = core_of(z, moved, train, "rotate", ratio, rotation_seed=4, step=step)
            assert core.nodes.numel() == first.nodes.numel() or ratio == 0.7
            seen |= set(core.nodes.tolist())
        assert seen >= set(train.nonzero().flatten().tolist())
    other = core_of(z, labels, train, "rotate", 0.02, rotation_seed=5)
    assert other.nodes.tolist() != core_of(z, labels, train, "rotate", 0.02, rotation_seed=4).nodes.tolist()


def test_rotation_fills_up_with_pseudo_labelled_nodes() -> None:
    z, labels, train = site(100, 5, 2, train_share=0.1)
    core = core_of(z, labels, train, "rotate", 0.5)
    assert core.nodes.numel() == 50
    assert bool(train[core.nodes].sum() == train.sum())


@pytest.mark.parametrize("policy", ["rotate", "curriculum"])
def test_a_share_of_a_rotating_core_is_pseudo_labelled(policy: CorePolicy) -> None:
    z, labels, train = site(200, 5, seed=4)
    surprise = torch.rand(200, generator=torch.Generator().manual_seed(2))
    core = core_of(z, labels, train, policy, 0.2, pseudo_share=0.25, surprise=surprise, pace=0.6)
    assert core.nodes.numel() == 40
    assert int((~train[core.nodes]).sum()) == 10


def test_the_curriculum_takes_turns_among_the_least_surprising() -> None:
    z, labels, train = site(300, 5, seed=1)
    surprise = torch.rand(300, generator=torch.Generator().manual_seed(2))
    seen = {
        pace: set().union(
            *(
                core_of(
                    z, labels, train, "curriculum", 0.1, step=step, surprise=surprise, pace=pace
                ).nodes.tolist()
                for step in range(12)
            )
        )
        for pace in (0.5, 1.0)
    }
    assert seen[1.0] == set(train.nonzero().squeeze(1).tolist())
    for label in range(5):
        members = (train & (labels == label)).nonzero().squeeze(1)
        easiest = members[surprise[members].argsort()][: math.ceil(0.5 * members.numel())]
        assert seen[0.5] & set(members.tolist()) == set(easiest.tolist())


def test_the_curriculum_does_not_rotate_without_surprise() -> None:
    z, labels, train = site(50, 5, seed=1)
    with pytest.raises(ValueError, match="curriculum orders nodes by surprise: pass it, or use rotate"):
        core_of(z, labels, train, "curriculum", 0.1, surprise=None)


def test_draws_repeat_and_differ_with_the_generator() -> None:
    z, labels, train = site(200, 5, 2)
    for policy in POLICIES:
        assert torch.equal(
            core_of(z, labels, train, policy, 0.1).nodes, core_of(z, labels, train, policy, 0.1).nodes
        )
    for policy in ("gumbel", "random"):
        other = select_core(
            z, labels, train, num_classes=5, ratio=0.1, policy=policy, generator=np.random.default_rng(4)
        )
        assert not torch.equal(core_of(z, labels, train, policy, 0.1).nodes, other.nodes)


def test_a_site_without_assigned_nodes_has_an_empty_core() -> None:
    nothing, none = torch.full((4,), -1), torch.zeros(4, dtype=torch.bool)
    for policy in POLICIES:
        assert core_of(torch.ones(4, 2), nothing, none, policy, 0.5).nodes.numel() == 0


def test_wrong_settings_are_refused() -> None:
    z, labels, train = site(10, 5, 0)
    # The checker of annotations, where it is on, would refuse a policy outside the Literal first.
    unchecked = inspect.unwrap(select_core)
    seed = np.random.default_rng(3)
    with pytest.raises(ConfigError, match=r"dance\.core-policy is 'best'"):
        unchecked(z, labels, train, num_classes=5, ratio=0.1, policy="best", generator=seed)
    with pytest.raises(ConfigError, match=r"the ratio is 0\.0"):
        core_of(z, labels, train, "top", 0.0)


def test_prototype_scores_of_small_classes_and_zero_rows() -> None:
    z = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
    scores = prototype_scores(z, torch.tensor([0, 0, 1, -1]), 2, 5, np.random.default_rng(0))
    assert scores.tolist() == [1.0, 1.0, 0.0, -torch.inf]


def test_clusters_of_identical_points() -> None:
    centres, assignment = cluster(torch.ones(30, 3), 4, np.random.default_rng(0))
    torch.testing.assert_close(centres[assignment], torch.ones(30, 3))


def test_many_clusters_are_made_in_parts_and_are_about_as_tight() -> None:
    z = torch.randn(4000, 6, generator=torch.Generator().manual_seed(0))
    centres, assignment = cluster(z, 1100, np.random.default_rng(0))
    assert centres.shape == (1100, 6)
    assert assignment.unique().numel() > 1000
    again = cluster(z, 1100, np.random.default_rng(0))
    assert torch.equal(again[0], centres)
    assert torch.equal(again[1], assignment)
    at_once = MiniBatchKMeans(
        1100, random_state=0, n_init=1, batch_size=2200, max_iter=20, reassignment_ratio=0.0
    )
    assert float((z - centres[assignment]).square().sum()) < 1.25 * at_once.fit(z.numpy()).inertia_


def test_a_part_of_few_points_gives_each_as_a_cluster() -> None:
    z = torch.cat([torch.zeros(1000, 2), 100 + torch.arange(200.0).unsqueeze(1).expand(200, 2)])
    centres, assignment = cluster(z, 1150, np.random.default_rng(0))
    assert centres.shape[0] == 1150
    assert int(assignment.max()) < 1150


@pytest.mark.parametrize("different", [0, 3000])
def test_points_that_coincide_end_in_clusters_that_stay_empty(different: int) -> None:
    z = torch.cat(
        [torch.randn(different, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(6000, 8)]
    )
    centres, labels = cluster(z, 2500, np.random.default_rng(0))
    assert len(centres) <= 2500
    assert torch.equal(centres[labels[-6000:]], torch.zeros(6000, 8))
