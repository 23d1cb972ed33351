from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.server.strategies.mean import weighted_mean


def updates(clients: int, seed: int) -> dict[str, dict[str, torch.Tensor]]:
    rng = np.random.default_rng(seed)
    shapes = {"w": (3, 4), "scale": (), "empty": (0, 2)}
    return {
        f"site-{k}": {
            name: torch.from_numpy(
                np.asarray(10 ** rng.uniform(-6, 3) * rng.standard_normal(shape), np.float32)
            )
            for name, shape in shapes.items()
        }
        for k in range(clients)
    }


def shares(clients: int, seed: int) -> dict[str, float]:
    raw = np.random.default_rng(seed + 1).random(clients) + 1e-3
    return {f"site-{k}": float(value) for k, value in enumerate(raw / raw.sum())}


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_the_mean_equals_a_float64_oracle(clients: int, seed: int) -> None:
    sent, weights = updates(clients, seed), shares(clients, seed)
    mean = weighted_mean(sent, weights)
    for name in ("w", "scale", "empty"):
        exact = sum(weights[client] * sent[client][name].numpy().astype(np.float64) for client in sent)
        np.testing.assert_array_equal(mean[name].numpy(), np.asarray(exact, np.float32))
        assert mean[name].dtype is torch.float32


@given(st.integers(2, 6), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_of_arrival_leaves_no_trace(clients: int, seed: int, random: object) -> None:
    sent, weights = updates(clients, seed), shares(clients, seed)
    order = list(sent)
    random.shuffle(order)  # type: ignore[attr-defined]
    one = weighted_mean(sent, weights)
    other = weighted_mean({c: sent[c] for c in order}, {c: weights[c] for c in reversed(order)})
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_updates_without_weight_do_not_count_and_nothing_is_changed() -> None:
    sent = updates(3, 0)
    kept = {client: {name: value.clone() for name, value in one.items()} for client, one in sent.items()}
    mean = weighted_mean(sent, {"site-1": 1.0})
    assert torch.equal(mean["w"], sent["site-1"]["w"])
    assert all(torch.equal(sent[c][n], kept[c][n]) for c in sent for n in sent[c])


def test_counters_and_switches_are_those_of_the_client_of_the_largest_weight() -> None:
    sent = {
        f"site-{k}": {"n": torch.tensor(10 * k + 1), "on": torch.tensor([k == 1]), "w": torch.ones(1) * k}
        for k in range(3)
    }
    mean = weighted_mean(sent, {"site-2": 0.4, "site-1": 0.4, "site-0": 0.2})
    assert mean["n"].item() == 11
    assert mean["n"].dtype is torch.int64
    assert mean["on"].tolist() == [True]
    torch.testing.assert_close(mean["w"], torch.tensor([1.2]))
    mean["n"] += 1
    assert sent["site-1"]["n"].item() == 11


def test_a_tensor_is_averaged_over_those_who_use_it() -> None:
    updates = {
        "a": {"both": torch.tensor([1.0]), "own": torch.tensor([2.0])},
        "b": {"both": torch.tensor([5.0]), "rare": torch.tensor([7.0])},
        "c": {"both": torch.tensor([0.0]), "own": torch.tensor([6.0]), "idle": torch.tensor([1.0])},
    }
    mean = weighted_mean(updates, {"a": 0.75, "b": 0.25, "c": 0.0})
    assert mean["both"].item() == pytest.approx(0.75 * 1 + 0.25 * 5)
    assert mean["own"].item() == 2.0
    assert mean["rare"].item() == 7.0
    assert "idle" not in mean
    mean = weighted_mean(updates, {"a": 0.5, "b": 0.3, "c": 0.2})
    assert mean["own"].item() == pytest.approx((0.5 * 2 + 0.2 * 6) / 0.7)
