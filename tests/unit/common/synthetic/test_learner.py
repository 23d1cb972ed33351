from __future__ import annotations

import pytest
import torch

from fedtag.common.errors import DivergenceError
from fedtag.common.synthetic.adjacency import link_network
from fedtag.common.synthetic.gradients import Batch, Weights, class_gradients, initial_weights
from fedtag.common.synthetic.learner import Learner, Pace
from fedtag.common.synthetic.matching import Distance

CORE, DIM, HIDDEN, CLASSES = 6, 4, 5, 3
Y = torch.tensor([0, 0, 1, 1, 2, 2])
SHARES = torch.ones(CLASSES)


def pace(distance: Distance = "squared", rate: float = 0.05) -> Pace:
    return Pace(distance, feature_steps=2, link_steps=1, feature_rate=rate, link_rate=0.05)


def fresh(linked: bool = True, seed: int = 0, **kind: float) -> Learner:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(CORE, DIM, generator=generator)
    return Learner(x, Y, link_network(DIM, HIDDEN, generator) if linked else None, pace(**kind))


def task(seed: int) -> tuple[Weights, tuple[torch.Tensor, ...]]:
    """A model, and its gradients on some other graph."""
    generator = torch.Generator().manual_seed(seed)
    weights = initial_weights("gcn", DIM, HIDDEN, CLASSES, generator)
    x = torch.randn(CORE, DIM, generator=generator)
    return weights, class_gradients(weights, Batch(x, torch.eye(CORE), Y))


@pytest.mark.parametrize("linked", [True, False])
def test_going_on_from_tensors_is_not_having_stopped(linked: bool) -> None:
    whole, first = fresh(linked), fresh(linked)
    for step in range(7):
        weights, real = task(step)
        whole.match(weights, real, SHARES)
        if step < 4:
            first.match(weights, real, SHARES)
    # Another seed: nothing of it may be left.
    second = fresh(linked, seed=1)
    second.restore(first.tensors())
    for step in range(4, 7):
        second.match(*task(step), SHARES)
    ours, theirs = whole.tensors(), second.tensors()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_features_and_links_take_turns() -> None:
    learner = fresh()
    moved = []
    for step in range(6):
        before = learner.tensors()
        learner.match(*task(step), SHARES)
        after = learner.tensors()
        moved.append([not torch.equal(before[name], after[name]) for name in ("x", "links.source.weight")])
    assert moved == [[True, False], [True, False], [False, True]] * 2


@pytest.mark.parametrize("distance", ["squared", "cosine"])
def test_gradients_come_closer(distance: Distance) -> None:
    learner = Learner(
        torch.randn(CORE, DIM, generator=torch.Generator().manual_seed(3)), Y, None, pace(distance)
    )
    weights, real = task(0)
    apart = [learner.match(weights, real, SHARES) for _ in range(200)]
    assert apart[-1] < {"squared": 0.2, "cosine": 0.8}[distance] * apart[0]


def test_a_class_without_a_share_moves_nothing() -> None:
    learner = fresh(linked=False)
    before = learner.tensors()["x"]
    learner.match(*task(0), torch.tensor([1.0, 0.0, 1.0]))
    after = learner.tensors()["x"]
    assert torch.equal(before[Y == 1], after[Y == 1])
    assert not torch.equal(before[Y == 0], after[Y == 0])


def test_divergence_names_the_rate() -> None:
    learner = fresh()
    weights, real = task(0)
    with pytest.raises(DivergenceError, match="condensation diverged: lower the feature-rate"):
        learner.match(weights, tuple(value * float("nan") for value in real), SHARES)
