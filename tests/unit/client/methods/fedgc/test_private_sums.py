"""Noise for single training nodes: what one changes, how much noise there is, and what that guarantees."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.rdp import RdpAccountant
from scipy import stats
from torch import Tensor
from torch.nn import functional

from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.methods.fedgc.private_sums import clipped_sums, noise_share, noised
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.graph import Graph
from fedtag.common.methods.fedgc.names import COUNTS
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.synthetic.gradients import (
    MatchingModel,
    Weights,
    initial_weights,
    logits,
    node_norms,
    projections,
)
from fedtag.server.methods.fedgc.noise import guarantee, with_counts

CLASSES, DIM, HIDDEN, NODES = 3, 6, 5, 80
MODELS: list[MatchingModel] = ["gcn", "sgc"]
LOCAL = {
    "method": "fedgc",
    "fedgc.dp-mode": "local",
    "fedgc.learn-from": "training",
    "fedgc.fine-tune-steps": 0,
}
MASKED = {
    **LOCAL,
    "fedgc.dp-mode": "distributed",
    "privacy.secure-aggregation": True,
    "aggregation.weights": "uniform",
    "clients": 6,
}


def graph(seed: int = 0) -> Graph:
    """Some nodes are labelled, more than are clipped at a time."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.randint(NODES, (2, 3 * NODES), generator=generator)
    edges = torch.unique(
        torch.cat([pairs, pairs.flip(0)], 1)[:, pairs[0].repeat(2) != pairs[1].repeat(2)], dim=1
    )
    nobody = torch.zeros(NODES, dtype=torch.bool)
    return Graph(
        x=4 * torch.randn(NODES, DIM, generator=generator),
        edge_index=edges,
        edge_weight=torch.ones(edges.shape[1]),
        y=torch.randint(CLASSES, (NODES,), generator=generator),
        train_mask=torch.rand(NODES, generator=generator) < 0.6,
        val_mask=nobody,
        test_mask=nobody,
        num_classes=CLASSES,
    )


def weights_of(model: MatchingModel, seed: int = 0) -> Weights:
    return initial_weights(model, DIM, HIDDEN, CLASSES, torch.Generator().manual_seed(seed))


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([value.flatten() for name, value in sums.items() if name != COUNTS])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bound", [0.05, 1.0])
def test_no_node_moves_a_sum_by_more_than_the_bound(model: MatchingModel, bound: float) -> None:
    """Each labelled node is taken out in turn: nothing but its own clipped gradient goes."""
    whole, weights = graph(), weights_of(model)
    every = clipped_sums(weights, whole, whole.adjacency(), bound, counted=True)
    moves = []
    for node in whole.train_mask.nonzero().squeeze(1).tolist():
        mask = whole.train_mask.clone()
        mask[node] = False
        less = clipped_sums(weights, replace(whole, train_mask=mask), whole.adjacency(), bound, counted=True)
        moves.append(float((flat(every).double() - flat(less).double()).norm()))
        assert float((every[COUNTS] - less[COUNTS]).norm()) == 1
    # Sums in single precision are off by a little.
    assert max(moves) <= bound + 1e-5
    assert max(moves) > 0.99 * bound
    # The control: without a bound that matters, some node moves the sum further.
    free = clipped_sums(weights, whole, whole.adjacency(), 1e6, counted=False)
    assert float(flat(free).norm()) > 1.5 * float(flat(every).norm()) if bound < 1 else True


@pytest.mark.parametrize("model", MODELS)
def test_norms_and_projections_are_those_of_autograd(model: MatchingModel) -> None:
    whole, weights = graph(1), weights_of(model, 1)
    batch = whole_batch(whole.x, whole.adjacency(), whole.train_mask, whole.y)
    generator = torch.Generator().manual_seed(2)
    directions = [torch.randn(CLASSES, *weight.shape, generator=generator) for weight in weights]
    found, along = node_norms(weights, batch), projections(weights, batch, directions)
    moving = tuple(weight.clone().requires_grad_() for weight in weights)
    losses = functional.cross_entropy(logits(moving, batch), batch.y, reduction="none")
    for place, loss in enumerate(losses):
        own = torch.autograd.grad(loss, moving, retain_graph=True)
        norm = math.sqrt(sum(float(value.square().sum()) for value in own))
        inner = sum(
            float((value * one[batch.y[place]]).sum()) for value, one in zip(own, directions, strict=True)
        )
        assert float(found[place]) == pytest.approx(norm, rel=1e-4)
        assert float(along[place]) == pytest.approx(inner, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(("bound", "share"), [(0.5, 3.0), (2.0, 0.7)])
def test_noise_is_as_large_as_it_is_said_to_be(bound: float, share: float) -> None:
    zeros = {"gradient/0": torch.zeros(40, 500), COUNTS: torch.zeros(20000)}
    found = noised(zeros, bound, share, np.random.default_rng(0).bytes)
    for name, deviation in (("gradient/0", bound * share), (COUNTS, share)):
        drawn = found[name].flatten().numpy()
        assert stats.kstest(drawn / deviation, "norm").pvalue > 0.001
        # The control: another scale is noticed.
        assert stats.kstest(drawn / (1.1 * deviation), "norm").pvalue < 1e-6


class Exchange:
    """What the noise of a site depends on."""

    def __init__(self, weights: dict[str, float] | None, **changes: Any) -> None:
        self.config = RunConfig.from_flat({**(LOCAL if weights is None else MASKED), **changes})
        self.sum_weights = weights

    @property
    def settings(self) -> FedGCConfig:
        return self.config.own(FedGCConfig)


def share(weights: dict[str, float] | None, **changes: Any) -> float:
    own = {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
    return noise_share(Exchange(weights, **own))  # type: ignore[arg-type]


def test_any_sum_that_is_opened_carries_enough() -> None:
    assert share(None, fedgc__dp_noise=2.5) == 2.5
    members = {f"site-{place}": 1 / 6 for place in range(6)}
    # Five of six open a sum, of whom one may reveal its part.
    assert share(members) * math.sqrt(5 - 1) == pytest.approx(1.0)
    assert share(members, privacy__dp__colluders=3) * math.sqrt(5 - 3) == pytest.approx(1.0)
    # Two members without weight may be among the five, and add nothing that counts.
    idle = {name: 0.25 if place < 4 else 0.0 for place, name in enumerate(members)}
    assert share(idle) * math.sqrt(5 - 2 - 1) == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="leaves no honest noise in a sum of 3 clients"):
        share(idle, privacy__dp__colluders=3)
    lied = {**members, "site-0": 1 / 3, "site-1": 0.0}
    with pytest.raises(ProtocolError, match=r"members weigh from 0\.166667 to 0\.333333"):
        share(lied)


def test_the_guarantee_is_that_of_as_many_gaussian_mechanisms() -> None:
    """An accountant by Rényi divergence, which composes by itself, comes to a little more; one sum less to less."""
    config = RunConfig.from_flat({**LOCAL, "rounds": 30, "fedgc.dp-noise": 4.0, "fedgc.dp-clip": 0.5})
    found = guarantee(None, 0, config)
    assert found is not None
    # Gradients of 30 rounds, and counts once.
    assert (found["sums"], found["unit"]) == (31, "one training node's label and gradient")

    def renyi(sums: int) -> float:
        accountant = RdpAccountant()
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(4.0), sums))
        return float(accountant.get_epsilon(1e-5))

    assert renyi(20) < found["epsilon"] <= renyi(31) < 1.15 * found["epsilon"]
    more = guarantee(40, 0, config)
    assert more is not None
    assert more["epsilon"] > found["epsilon"]
    assert guarantee(None, 0, RunConfig.from_flat({"method": "fedgc"})) is None


def test_rounding_to_fixed_point_costs_a_little() -> None:
    masked = RunConfig.from_flat({**MASKED, "privacy.scale-bits": 30, "fedgc.dp-noise": 4.0})
    fine, coarse = (guarantee(31, dimension, masked) for dimension in (0, 10**6))
    assert fine is not None
    assert coarse is not None
    assert fine["epsilon"] < coarse["epsilon"] < 1.1 * fine["epsilon"]


def test_classes_with_too_small_noisy_counts_are_left_out_by_the_server() -> None:
    config = RunConfig.from_flat(LOCAL)
    values: dict[str, Any] = {}
    first = {COUNTS: torch.tensor([20.4, 4.9, -3.0]) / 2, "gradient/0": torch.zeros(3)}
    assert (with_counts(first, values, 2.0, config)[COUNTS] * 2).tolist() == pytest.approx([20.4, 0, 0])
    # They are told once.
    later = with_counts({"gradient/0": torch.zeros(3)}, values, 4.0, config)
    assert (later[COUNTS] * 4).tolist() == pytest.approx([20.4, 0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fedgc.learn-from": "pseudo"}, "a self-trained model is made of training nodes without noise"),
        ({"fedgc.bottleneck": True}, "set fedgc.learn-from = training, and fedgc.bottleneck = false"),
        ({"fedgc.fine-tune-steps": 3}, "set fedgc.fine-tune-steps = 0"),
        ({"privacy.secure-aggregation": True}, "fedgc.dp-mode = local puts all of the noise"),
        ({"fedgc.dp-mode": "distributed"}, "set privacy.secure-aggregation = true"),
        ({**MASKED, "aggregation.weights": "samples"}, "would weigh members' parts of the noise differently"),
        ({**MASKED, "privacy.dp.colluders": 5}, "colluders = 5 leaves no honest noise in a sum of 5 clients"),
    ],
)
def test_what_noise_does_not_go_with_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RunConfig.from_flat({**LOCAL, **changes})
