from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from fedtag.common.errors import WireError
from fedtag.server.strategies.weights import (
    LARGEST_ATTENTION,
    ClientStatistics,
    assessments,
    client_weights,
    parse_statistics,
)

COUNTS = st.dictionaries(st.text(max_size=4), st.integers(0, 10**12), max_size=6)
AWARE = "distribution-aware"
CLASSES = 4


# Of each client: its training nodes, what its distribution is in proportion to, its norm, its accuracy.
CLIENTS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.tuples(
        st.integers(0, 1000),
        st.lists(st.integers(0, 9), min_size=CLASSES, max_size=CLASSES).filter(any),
        st.floats(0, LARGEST_ATTENTION),
        st.none() | st.floats(0, 1),
    ),
    min_size=1,
    max_size=6,
)
Drawn = dict[str, tuple[int, list[int], float, float | None]]


def federation(drawn: Drawn) -> tuple[dict[str, int], dict[str, ClientStatistics]]:
    told = {
        name: ClientStatistics(tuple(amount / sum(raw) for amount in raw), attention, accuracy)
        for name, (_, raw, attention, accuracy) in drawn.items()
    }
    return {name: nodes for name, (nodes, *_) in drawn.items()}, told


def oracle(nodes: dict[str, int], told: dict[str, ClientStatistics]) -> dict[str, float]:
    """Eq. 5-10 in NumPy, the divergence by SciPy."""
    names = sorted(name for name in nodes if nodes[name])
    accuracies = [told[name].accuracy for name in names if told[name].accuracy is not None]
    usual = np.mean(accuracies) if accuracies else 1.0
    p = np.array([told[name].distribution for name in names])
    p = (p + 1e-8) / (1 + CLASSES * 1e-8)
    w = np.array(
        [
            max(told[n].attention, 1e-6) * max(usual if told[n].accuracy is None else told[n].accuracy, 0.01)
            for n in names
        ]
    )
    share = np.array([nodes[name] for name in names]) * w
    reference = share / share.sum() @ p
    factor = w / (1 + np.array([entropy(row, reference) for row in p]))
    return dict(zip(names, factor / factor.sum(), strict=True))


@given(COUNTS, st.sampled_from(["samples", "uniform"]))
def test_weights_are_shares_of_those_who_train(counts: dict[str, int], kind: str) -> None:
    weights = client_weights(kind, counts)
    trained = {client: count for client, count in counts.items() if count}
    assert list(weights) == sorted(trained)
    if trained:
        assert sum(weights.values()) == pytest.approx(1)
    for client, weight in weights.items():
        share = counts[client] / sum(counts.values()) if kind == "samples" else 1 / len(trained)
        assert weight == pytest.approx(share)


@pytest.mark.parametrize("kind", ["samples", "uniform", AWARE])
def test_nobody_who_trains_means_no_weight(kind: str) -> None:
    told = {"a": ClientStatistics((1.0, 0.0), 1.0, 0.5)}
    assert client_weights(kind, {"a": 0}, told) == {}
    assert client_weights(kind, {}, told) == {}
    assert client_weights(kind, {}) == {}


@given(CLIENTS)
def test_distribution_aware_weights_are_the_papers(drawn: Drawn) -> None:
    nodes, told = federation(drawn)
    weights = client_weights(AWARE, nodes, told)
    assert list(weights) == sorted(name for name in nodes if nodes[name])
    if weights:
        assert weights == pytest.approx(oracle(nodes, told), rel=1e-6)
        assert math.fsum(weights.values()) == pytest.approx(1)
        assert all(weight > 0 for weight in weights.values())


@given(CLIENTS, st.randoms(use_true_random=False))
def test_neither_order_nor_names_leave_a_trace(drawn: Drawn, random: Any) -> None:
    nodes, told = federation(drawn)
    order, renamed = list(nodes), [f"n{k}" for k in range(len(nodes))]
    random.shuffle(order)
    random.shuffle(renamed)
    names = dict(zip(order, renamed, strict=True))
    plain = client_weights(AWARE, nodes, told)
    shuffled = client_weights(AWARE, {n: nodes[n] for n in order}, {n: told[n] for n in reversed(order)})
    other = client_weights(AWARE, {names[n]: nodes[n] for n in order}, {names[n]: told[n] for n in order})
    assert shuffled == plain
    assert {name: other[names[name]] for name in plain} == plain


@pytest.mark.parametrize(
    "told",
    [
        ClientStatistics((0.3, 0.7), 0.8, 0.9),
        ClientStatistics((1.0, 0.0), 0.8, None),
        ClientStatistics((0.0, 1.0), 0.0, 0.0),
    ],
)
@pytest.mark.parametrize("clients", [1, 2, 3, 7])
def test_equal_clients_have_equal_weights(told: ClientStatistics, clients: int) -> None:
    names = [f"site-{k}" for k in range(clients)]
    weights = client_weights(AWARE, dict.fromkeys(names, 5), dict.fromkeys(names, told))
    assert len(set(weights.values())) == 1
    assert weights == pytest.approx(dict.fromkeys(names, 1 / clients))
    found = assessments(dict.fromkeys(names, 5), dict.fromkeys(names, told))
    assert all(one.divergence == pytest.approx(0, abs=1e-12) for one in found.values())
    assert all(one.similarity == pytest.approx(1) for one in found.values())


def test_two_clients_by_hand() -> None:
    """W = 1 · 0.5 and 2 · 0.01; P_global = (0.5 · (1, 0) + 0.06 · (0.5, 0.5)) / 0.56."""
    told = {"a": ClientStatistics((1.0, 0.0), 1.0, 0.5), "b": ClientStatistics((0.5, 0.5), 2.0, 0.0)}
    nodes = {"b": 3, "a": 1}
    p = (0.53 / 0.56, 0.03 / 0.56)
    divergence = {"a": -math.log(p[0]), "b": 0.5 * math.log(0.25 / (p[0] * p[1]))}
    found = assessments(nodes, told)
    for name, factor in (("a", 0.5), ("b", 0.02)):
        assert found[name].divergence == pytest.approx(divergence[name], rel=1e-5)
        assert found[name].similarity == pytest.approx(1 / (1 + divergence[name]), rel=1e-5)
        assert found[name].factor == pytest.approx(factor / (1 + divergence[name]), rel=1e-5)
    assert vars(found["b"]).keys() == {"accuracy", "attention", "divergence", "similarity"}
    assert (found["b"].accuracy, found["b"].attention) == (0.0, 2.0)
    doubled = assessments(nodes, told, scaling=2.0)
    assert doubled["a"].similarity == pytest.approx(1 / (1 + 2 * divergence["a"]), rel=1e-5)


def test_an_outlier_weighs_less() -> None:
    usual, odd = ClientStatistics((0.5, 0.5), 1.0, 0.8), ClientStatistics((0.01, 0.99), 1.0, 0.8)
    weights = client_weights(AWARE, {"a": 9, "b": 9, "c": 9}, {"a": usual, "b": usual, "c": odd})
    assert weights["a"] == weights["b"] > weights["c"] > 0


def test_a_missing_accuracy_is_the_mean_of_the_others() -> None:
    told = {
        name: ClientStatistics((0.5, 0.5), 1.0, accuracy)
        for name, accuracy in (("a", 0.2), ("b", None), ("c", 0.8), ("idle", 0.0))
    }
    found = assessments({"a": 1, "b": 1, "c": 1, "idle": 0}, told)
    assert {name: one.accuracy for name, one in found.items()} == {"a": 0.2, "b": 0.5, "c": 0.8}
    alone = assessments({"b": 1}, told)
    assert alone["b"].accuracy == 1.0


def test_clients_without_statistics_weigh_the_mean_of_the_others() -> None:
    told = {"a": ClientStatistics((0.5, 0.5), 1.0, 0.2), "c": ClientStatistics((0.5, 0.5), 1.0, 0.4)}
    weights = client_weights(AWARE, {"a": 7, "new": 100, "c": 7}, told)
    assert weights == pytest.approx({"a": 2 / 9, "c": 4 / 9, "new": 3 / 9})
    known = client_weights(AWARE, {"a": 7, "c": 7}, {**told, "gone": ClientStatistics((1.0, 0.0), 9.0, 1.0)})
    assert known == client_weights(AWARE, {"a": 7, "c": 7}, told)


@pytest.mark.parametrize("told", [None, {}, {"gone": ClientStatistics((1.0, 0.0), 1.0, None)}])
def test_without_any_statistics_training_nodes_decide(told: Any) -> None:
    assert client_weights(AWARE, {"a": 1, "b": 3, "c": 0}, told) == {"a": 0.25, "b": 0.75}


HONEST = {"distribution": [0.2, 0.3, 0.5], "attention": 0.7, "accuracy": 0.5}


def test_honest_statistics_are_taken() -> None:
    assert parse_statistics(HONEST, 3) == ClientStatistics((0.2, 0.3, 0.5), 0.7, 0.5)
    whole = parse_statistics({"distribution": [1, 0, 0], "attention": 0, "accuracy": None, "more": 1}, 3)
    assert whole == ClientStatistics((1.0, 0.0, 0.0), 0.0, None)
    rescaled = parse_statistics({**HONEST, "distribution": [0.2, 0.3, 0.5005]}, 3)
    assert math.fsum(rescaled.distribution) == pytest.approx(1, abs=1e-15)
    assert parse_statistics({"distribution": HONEST["distribution"], "attention": 1}, 3).accuracy is None


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "3 probabilities"),
        ([0.2, 0.3, 0.5], "3 probabilities"),
        ({}, "3 probabilities"),
        ({**HONEST, "distribution": "abc"}, "3 probabilities"),
        ({**HONEST, "distribution": [0.5, 0.5]}, "3 probabilities"),
        ({**HONEST, "distribution": [0.5, 0.5, 0, 0]}, "3 probabilities"),
        ({**HONEST, "distribution": [0.5, 0.5, None]}, "3 probabilities"),
        ({**HONEST, "distribution": [0.5, 0.5, "0"]}, "3 probabilities"),
        ({**HONEST, "distribution": [True, 0, 0]}, "3 probabilities"),
        ({**HONEST, "distribution": [0.6, 0.6, -0.2]}, "3 probabilities"),
        ({**HONEST, "distribution": [0.2, 0.3, 0.6]}, "sum to 1"),
        ({**HONEST, "distribution": [0.2, 0.3, 0.49]}, "sum to 1"),
        ({**HONEST, "distribution": [0, 0, 0]}, "sum to 1"),
        ({**HONEST, "distribution": [math.nan, 0.5, 0.5]}, "3 probabilities"),
        ({**HONEST, "distribution": [math.inf, 0.5, 0.5]}, "3 probabilities"),
        ({**HONEST, "distribution": [10**400, 0, 0]}, "3 probabilities"),
        ({**HONEST, "attention": None}, "attention must be a number from 0 to 10"),
        ({**HONEST, "attention": "1"}, "attention"),
        ({**HONEST, "attention": True}, "attention"),
        ({**HONEST, "attention": -1e-9}, "attention"),
        ({**HONEST, "attention": 10.1}, "attention"),
        ({**HONEST, "attention": math.nan}, "attention"),
        ({**HONEST, "attention": 10**400}, "attention"),
        ({**HONEST, "accuracy": 1.01}, "accuracy must be a fraction"),
        ({**HONEST, "accuracy": -0.1}, "accuracy"),
        ({**HONEST, "accuracy": math.nan}, "accuracy"),
        ({**HONEST, "accuracy": False}, "accuracy"),
        ({**HONEST, "accuracy": [1]}, "accuracy"),
    ],
)
def test_hostile_statistics_are_refused(told: Any, message: str) -> None:
    with pytest.raises(WireError, match=message):
        parse_statistics(told, 3)
