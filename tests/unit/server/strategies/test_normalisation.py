from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.config import RunConfig
from fedtag.server.strategies.mean import weighted_mean
from fedtag.server.strategies.normalisation import believable, fednova, largest_normaliser, scaled

FACTORS = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.tuples(st.floats(0.01, 1), st.floats(0.5, 100)),
    min_size=1,
    max_size=5,
)


def shares(amounts: dict[str, float]) -> dict[str, float]:
    return {name: amount / sum(amounts.values()) for name, amount in amounts.items()}


@given(FACTORS)
def test_the_step_is_that_of_equation_13(drawn: dict[str, tuple[float, float]]) -> None:
    weights = shares({name: weight for name, (weight, _) in drawn.items()})
    normalisers = {name: a for name, (_, a) in drawn.items()}
    rng = np.random.default_rng(0)
    updates = {name: {"w": torch.from_numpy(rng.standard_normal(3))} for name in drawn}
    found = fednova(weights, normalisers)
    step = weighted_mean(scaled(updates, found.factors), found.weights)["w"].numpy()
    effective = sum(weights[name] * normalisers[name] for name in drawn)
    mean = sum(weights[name] * updates[name]["w"].numpy() / normalisers[name] for name in drawn)
    np.testing.assert_allclose(step, effective * mean, rtol=1e-10, atol=1e-12)
    assert found.effective_steps == pytest.approx(effective)


@given(FACTORS, st.floats(1e-3, 1e9))
def test_equal_work_gives_the_weighted_mean(drawn: dict[str, tuple[float, float]], a: float) -> None:
    weights = shares({name: weight for name, (weight, _) in drawn.items()})
    found = fednova(weights, dict.fromkeys(drawn, a))
    assert found.factors == pytest.approx(dict.fromkeys(drawn, 1.0), rel=1e-12)
    assert found.weights == pytest.approx(weights, rel=1e-12)
    updates = {name: {"w": torch.randn(4, dtype=torch.float64)} for name in drawn}
    torch.testing.assert_close(
        weighted_mean(scaled(updates, found.factors), found.weights)["w"],
        weighted_mean(updates, weights)["w"],
        rtol=1e-12,
        atol=1e-14,
    )


def test_clients_that_took_no_step_or_claim_too_many_are_left_out() -> None:
    weights = {"a": 0.2, "b": 0.3, "c": 0.4, "d": 0.05, "e": 0.05}
    found = fednova(weights, {"a": 2.0, "b": 0.0, "c": 4.0, "d": 1e9}, most=dict.fromkeys("abcd", 10.0))
    assert found.weights == pytest.approx({"a": 1 / 3, "c": 2 / 3})
    assert found.effective_steps == pytest.approx(10 / 3)
    assert found.factors == pytest.approx({"a": 5 / 3, "c": 5 / 6})
    updates = {name: {"w": torch.ones(1)} for name in weights}
    assert list(scaled(updates, found.factors)) == ["a", "c"]


@pytest.mark.parametrize(
    ("weights", "normalisers"),
    [
        ({}, {}),
        ({"a": 1.0}, {}),
        ({"a": 1.0}, {"a": 0.0}),
        ({"a": 1.0}, {"a": 1e-9}),
        ({"a": 0.0, "b": 1.0}, {"a": 3.0}),
    ],
)
def test_nobody_who_took_a_step_means_no_weight(
    weights: dict[str, float], normalisers: dict[str, float]
) -> None:
    found = fednova(weights, normalisers)
    assert (found.weights, found.factors, found.effective_steps) == ({}, {}, 0.0)


def test_neither_order_nor_names_leave_a_trace() -> None:
    rng = np.random.default_rng(3)
    weights = shares({f"site-{k}": float(value) for k, value in enumerate(rng.random(9))})
    normalisers = {name: float(value) for name, value in zip(weights, 20 * rng.random(9), strict=True)}
    plain = fednova(weights, normalisers)
    turned = {name: f"n{8 - k}" for k, name in enumerate(weights)}
    other = fednova(
        {turned[n]: weights[n] for n in reversed(weights)}, {turned[n]: normalisers[n] for n in weights}
    )
    assert {n: other.factors[turned[n]] for n in weights} == plain.factors
    assert {n: other.weights[turned[n]] for n in weights} == plain.weights


def test_counters_are_not_scaled_and_updates_stay_as_they_are() -> None:
    update = {
        "w": torch.ones(2),
        "half": torch.ones(2, dtype=torch.float16),
        "n": torch.tensor(3),
        "seen": torch.tensor(True),
    }
    found = scaled({"a": update}, {"a": 2.0})["a"]
    assert found["w"].tolist() == [2.0, 2.0]
    assert found["half"].dtype is torch.float16
    assert found["n"].item() == 3
    assert found["n"].dtype is torch.int64
    assert found["seen"].item() is True
    assert update["w"].tolist() == [1.0, 1.0]


def test_the_settings_bound_what_a_client_can_have_done() -> None:
    def most(**changes: object) -> float:
        flat = {"method": "fedavg", "train.accuracy-threshold": 0.5}
        return largest_normaliser(
            RunConfig.from_flat(
                {**flat, **{f"train.{k.replace('_', '-')}": v for k, v in changes.items()}}
            ).train
        )

    assert most(epochs=3, extra_epochs=4) == pytest.approx(7, rel=1e-5)
    assert most(epochs=3, extra_epochs=4) > 7
    assert most(epochs=3, optimizer="sgd", momentum=0.9) == pytest.approx(30, rel=1e-5)


@pytest.mark.parametrize(
    ("size", "nodes", "steps"),
    [(0, 1000, 3), (100, 0, 3), (100, 100, 3), (100, 101, 6), ("auto", 1000, 3 * 63)],
)
def test_batches_let_a_client_do_more_by_its_number_of_nodes(size: object, nodes: int, steps: int) -> None:
    """Who lets its site choose has batches of 16 nodes at the least."""
    train = RunConfig.from_flat({"method": "fedavg", "train.epochs": 3, "train.batch-size": size}).train
    assert largest_normaliser(train, nodes) == pytest.approx(steps, rel=1e-5)


STEPS = {"a": 1, "b": 4, "c": 10}
WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.2}


class Quadratics:
    """F_i(x) = ½ (x − x_i*)ᵀ A_i (x − x_i*) at three clients that take 1, 4 and 10 steps of gradient descent."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.curvature, self.optimum = {}, {}
        for name in STEPS:
            turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
            self.curvature[name] = turn @ np.diag(rng.uniform(0.5, 2, 3)) @ turn.T
            self.optimum[name] = rng.standard_normal(3)

    def update(self, name: str, x: np.ndarray, rate: float) -> dict[str, torch.Tensor]:
        walked = x.copy()
        for _ in range(STEPS[name]):
            walked -= rate * self.curvature[name] @ (walked - self.optimum[name])
        return {"x": torch.from_numpy(walked - x)}

    def limit(self, rate: float, nova: bool) -> np.ndarray:
        """Where the rounds lead to."""
        plan = fednova(WEIGHTS, {name: float(steps) for name, steps in STEPS.items()})
        x = np.zeros(3)
        for _ in range(100_000):
            updates = {name: self.update(name, x, rate) for name in STEPS}
            step = weighted_mean(scaled(updates, plan.factors) if nova else updates, plan.weights)[
                "x"
            ].numpy()
            x = x + step
            if np.abs(step).max() < 1e-14:
                break
        return x

    def best(self, weights: dict[str, float]) -> np.ndarray:
        """The optimum of Σ w_i F_i."""
        total = sum(weights[name] * self.curvature[name] for name in STEPS)
        pull = sum(weights[name] * self.curvature[name] @ self.optimum[name] for name in STEPS)
        return np.linalg.solve(total, pull)

    def residual(self, x: np.ndarray, rate: float) -> np.ndarray:
        """Σ w_i (I − (I − ηA_i)^{τ_i}) / τ_i (x − x_i*)."""
        return sum(
            WEIGHTS[name]
            / steps
            * (np.eye(3) - np.linalg.matrix_power(np.eye(3) - rate * self.curvature[name], steps))
            @ (x - self.optimum[name])
            for name, steps in STEPS.items()
        )


def test_unequal_work_no_longer_moves_the_fixed_point() -> None:
    """FedNova tends to the optimum of Σ w_i F_i as η does to 0, FedAvg to that of Σ w_i τ_i F_i."""
    problem = Quadratics()
    wanted = problem.best(WEIGHTS)
    wrong = problem.best({name: WEIGHTS[name] * STEPS[name] for name in STEPS})
    rates = (0.1, 0.01, 0.001)
    limits = {rate: problem.limit(rate, nova=True) for rate in rates}
    for rate, x in limits.items():
        np.testing.assert_allclose(problem.residual(x, rate) / rate, 0, atol=1e-10)
    distances = [np.linalg.norm(limits[rate] - wanted) for rate in rates]
    for larger, smaller in pairwise(distances):
        assert larger / smaller == pytest.approx(10, rel=0.2)
    plain = {rate: problem.limit(rate, nova=False) for rate in rates}
    astray = [np.linalg.norm(plain[rate] - wrong) for rate in rates]
    for larger, smaller in pairwise(astray):
        assert larger / smaller == pytest.approx(10, rel=0.2)
    gap = np.linalg.norm(wrong - wanted)
    assert np.linalg.norm(plain[0.001] - wanted) > 0.9 * gap > 50 * distances[-1]


def test_a_claim_of_many_nodes_lengthens_the_step_no_more_than_all_others_could() -> None:
    train = RunConfig.from_flat({"method": "fedavg", "train.batch-size": 128}).train
    honest = {"a": 900, "b": 1100, "c": 1000}
    assert believable(honest) == honest
    claimed = {**honest, "liar": 10**9}
    most, believed = (
        {client: largest_normaliser(train, count) for client, count in said.items()}
        for said in (claimed, believable(claimed))
    )
    normalisers = {"a": 24.0, "b": 27.0, "c": 24.0, "liar": 2.3e7}
    weights = dict.fromkeys(claimed, 0.25)
    assert fednova(weights, normalisers, most).factors["a"] > 1e5, "so it was believed"
    plan = fednova(weights, normalisers, most, believed)
    assert plan.effective_steps == pytest.approx((24 + 27 + 24 + 3 * 24) / 4, rel=1e-5)
    assert plan.factors["liar"] < 1e-5
    beyond = fednova(weights, {**normalisers, "liar": 2.4e7}, most, believed)
    assert beyond == fednova(dict.fromkeys(honest, 1 / 3), normalisers), "more than it says it can have done"


def test_who_has_more_nodes_than_all_others_is_not_left_out() -> None:
    train = RunConfig.from_flat({"method": "fedavg", "train.batch-size": 100}).train
    nodes = {"a": 1000, "b": 100, "c": 200}
    done = {"a": 30.0, "b": 3.0, "c": 6.0}
    most, believed = (
        {client: largest_normaliser(train, count) for client, count in said.items()}
        for said in (nodes, believable(nodes))
    )
    plan = fednova(dict.fromkeys(nodes, 1 / 3), done, most, believed)
    assert plan.weights == dict.fromkeys(nodes, 1 / 3)
    assert plan.effective_steps == pytest.approx((9 + 3 + 6) / 3, rel=1e-5)
    # What each adds is its direction, whatever the length of the step.
    assert all(
        plan.factors[client] * steps == pytest.approx(plan.effective_steps) for client, steps in done.items()
    )
