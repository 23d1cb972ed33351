from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from flwr.supercore.task_identity import TaskIdentity
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedtag.common.errors import ConfigError
from fedtag.common.numerics.robust_rules import fewest_clients
from fedtag.server.strategies.rules import combine_by_rule

SHAPES = {"w": (3, 4), "scale": (), "bias": (5,), "empty": (0, 2)}
RULES = ("median", "trimmed-mean", "krum", "multi-krum", "bulyan")
Updates = dict[str, dict[str, torch.Tensor]]
Vectors = NDArray[np.float64]


def updates(clients: int, seed: int) -> Updates:
    rng = np.random.default_rng(seed)
    centre = {name: rng.standard_normal(shape) for name, shape in SHAPES.items()}
    return {
        f"site-{k:02d}": {
            name: torch.from_numpy(
                np.asarray(centre[name] + 0.3 * rng.standard_normal(shape), dtype=np.float32)
            )
            for name, shape in SHAPES.items()
        }
        for k in range(clients)
    }


def flat(update: dict[str, torch.Tensor]) -> Vectors:
    return np.concatenate([update[name].double().numpy().ravel() for name in SHAPES])


def stacked(sent: Updates) -> Vectors:
    return np.stack([flat(sent[client]) for client in sorted(sent)])


def krum_scores(vectors: Vectors, hostile: int) -> list[float]:
    """Word for word: the squared distances to the n - f - 2 closest other vectors, added up."""
    near = len(vectors) - hostile - 2
    scores = []
    for i, one in enumerate(vectors):
        distances = sorted(float(((one - two) ** 2).sum()) for j, two in enumerate(vectors) if j != i)
        scores.append(sum(distances[:near]))
    return scores


def best(vectors: Vectors, hostile: int, count: int) -> Vectors:
    scores = krum_scores(vectors, hostile)
    return vectors[sorted(range(len(vectors)), key=scores.__getitem__)[:count]]


def expected(rule: str, vectors: Vectors, hostile: int, trim: float) -> Vectors:
    n = len(vectors)
    if rule == "median":
        return np.median(vectors, axis=0)
    if rule == "trimmed-mean":
        return np.asarray(scipy.stats.trim_mean(vectors, trim, axis=0))
    if rule == "krum":
        return best(vectors, hostile, 1)[0]
    if rule == "multi-krum":
        return np.asarray(best(vectors, hostile, n - hostile - 2).mean(axis=0))
    chosen = best(vectors, hostile, n - 2 * hostile)
    result = np.empty(vectors.shape[1])
    for place, column in enumerate(chosen.T):
        nearest = sorted(column, key=lambda value: abs(value - np.median(column)))
        result[place] = np.mean(nearest[: n - 4 * hostile])
    return result


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25)
@given(
    hostile=st.integers(0, 2), more=st.integers(1, 4), trim=st.floats(0.15, 0.45), seed=st.integers(0, 10**6)
)
def test_rules_equal_a_brute_force_oracle(rule: str, hostile: int, more: int, trim: float, seed: int) -> None:
    clients = fewest_clients(rule, hostile, trim) + more
    assume(rule != "trimmed-mean" or int(trim * clients) > 0)
    sent = updates(clients, seed)
    combined = combine_by_rule(rule, sent, hostile, trim)
    assert {name: tuple(value.shape) for name, value in combined.items()} == SHAPES
    assert all(value.dtype is torch.float32 for value in combined.values())
    np.testing.assert_allclose(
        flat(combined), expected(rule, stacked(sent), hostile, trim), rtol=2e-6, atol=1e-7
    )


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), order=st.randoms(use_true_random=False))
def test_neither_the_order_of_clients_nor_that_of_names_leaves_a_trace(
    rule: str, seed: int, order: random.Random
) -> None:
    sent = updates(8, seed)
    one = combine_by_rule(rule, sent, 1, 0.2)
    clients = order.sample(sorted(sent), len(sent))
    # The client that comes first by name gives the order of tensors; the others may differ from it.
    mixed = {
        client: sent[client]
        if client == "site-00"
        else {name: sent[client][name] for name in order.sample(list(SHAPES), len(SHAPES))}
        for client in clients
    }
    other = combine_by_rule(rule, mixed, 1, 0.2)
    assert list(one) == list(other)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [3.0, 1e6])
@settings(max_examples=15)
@given(hostile=st.integers(1, 2), seed=st.integers(0, 10**6))
def test_hostile_clients_cannot_leave_the_range_of_honest_values(
    rule: str, size: float, hostile: int, seed: int
) -> None:
    sent = updates(4 * hostile + 3, seed)
    attack = np.random.default_rng(seed)
    honest = stacked({client: sent[client] for client in sorted(sent)[hostile:]})
    # They agree among themselves, which makes their distances to each other small.
    sign = attack.choice([-1.0, 1.0])
    for client in sorted(sent)[:hostile]:
        sent[client] = {
            name: value + size * sign + 1e-3 * torch.rand(value.shape) for name, value in sent[client].items()
        }
    result = flat(combine_by_rule(rule, sent, hostile, 0.25))
    slack = 1e-6 * np.abs(honest).max()
    if size > 100 or rule in ("median", "trimmed-mean"):
        assert (result >= honest.min(axis=0) - slack).all()
        assert (result <= honest.max(axis=0) + slack).all()
    else:
        assert np.linalg.norm(result - honest.mean(axis=0)) < size * np.sqrt(result.size) / 2


def test_a_plain_mean_would_follow_them() -> None:
    """The attack above is one: without a rule it decides the result."""
    sent = updates(7, 0)
    sent["site-00"] = {name: value + 1e6 for name, value in sent["site-00"].items()}
    assert np.abs(stacked(sent).mean(axis=0)).min() > 1e5


@pytest.mark.parametrize(
    ("rule", "hostile", "trim", "needed"),
    [
        ("median", 0, 0.2, 3),
        ("trimmed-mean", 0, 0.2, 3),
        ("trimmed-mean", 0, 0.0, 1),
        ("krum", 0, 0.2, 3),
        ("krum", 2, 0.2, 7),
        ("multi-krum", 1, 0.2, 5),
        ("bulyan", 0, 0.2, 3),
        ("bulyan", 2, 0.2, 11),
        ("mean", 0, 0.2, 1),
    ],
)
def test_too_few_clients_are_refused_with_the_number_needed(
    rule: str, hostile: int, trim: float, needed: int
) -> None:
    assert fewest_clients(rule, hostile, trim) == needed
    with pytest.raises(ConfigError, match=f"at least {needed} clients, {needed - 1} contributed") as error:
        combine_by_rule(rule, updates(needed - 1, 0), hostile, trim)
    assert ("lower aggregation.hostile" in str(error.value)) == (hostile > 0)
    if rule != "mean":
        combine_by_rule(rule, updates(needed, 0), hostile, trim)


def test_a_rule_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="mean is no robust rule: use median"):
        combine_by_rule("mean", updates(3, 0), 0, 0.2)


@pytest.mark.parametrize(("clients", "trim"), [(3, 0.2), (4, 0.01), (4, 0.24), (9, 0.1)])
def test_a_trimmed_mean_of_few_clients_still_cuts_one_value_at_each_end(clients: int, trim: float) -> None:
    sent = updates(clients, 1)
    kept = np.sort(stacked(sent), axis=0)[1:-1].mean(axis=0)
    np.testing.assert_allclose(flat(combine_by_rule("trimmed-mean", sent, 0, trim)), kept, rtol=2e-6)
    whole = stacked(sent).mean(axis=0)
    np.testing.assert_allclose(flat(combine_by_rule("trimmed-mean", sent, 0, 0.0)), whole, rtol=2e-6)


@pytest.mark.parametrize("rule", RULES)
def test_counts_and_switches_take_a_value_that_a_client_sent(rule: str) -> None:
    counts = [2**53 + 1, 7, 7, 9, 2**62, 3, 7, 9]
    switches = [True, True, False, True, False, True, False, True]
    sent = {
        client: {
            **update,
            "steps": torch.tensor([count]),
            "on": torch.tensor(switch),
            "small": torch.tensor([count % 5], dtype=torch.uint8),
        }
        for (client, update), count, switch in zip(updates(8, 3).items(), counts, switches, strict=True)
    }
    combined = combine_by_rule(rule, sent, 1, 0.2)
    assert torch.equal(combined["steps"], torch.tensor([7]))  # of 3 7 7 7 | 9 9 …
    assert torch.equal(combined["on"], torch.tensor(True))
    assert torch.equal(combined["small"], torch.tensor([3], dtype=torch.uint8))  # of 2 2 2 3 | 3 4 …
    # They have no part in distances either.
    plain = combine_by_rule(rule, updates(8, 3), 1, 0.2)
    assert all(torch.equal(combined[name], plain[name]) for name in SHAPES)
    only = {client: {"steps": update["steps"]} for client, update in sent.items()}
    assert torch.equal(combine_by_rule(rule, only, 1, 0.2)["steps"], torch.tensor([7]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rule", RULES)
def test_other_precisions_keep_their_dtype(rule: str, dtype: torch.dtype) -> None:
    sent = {c: {name: value.to(dtype) for name, value in u.items()} for c, u in updates(8, 4).items()}
    combined = combine_by_rule(rule, sent, 1, 0.2)
    assert all(value.dtype is dtype for value in combined.values())
    exact = torch.from_numpy(expected(rule, stacked(sent), 1, 0.2))
    torch.testing.assert_close(torch.from_numpy(flat(combined)), exact.to(dtype).double())


def test_close_updates_far_from_zero_are_told_apart() -> None:
    """In float32, whose squares would drown such distances, the choice would be a matter of chance."""
    far = torch.full((50,), 3000.0)
    offsets = [0.0, 0.01, -0.01, 0.02, 5.0]
    sent = {f"site-{k}": {"w": far + offset} for k, offset in enumerate(offsets)}
    assert torch.equal(combine_by_rule("krum", sent, 1, 0.2)["w"], far)


@pytest.mark.parametrize("rule", RULES)
def test_it_needs_no_running_server_says_nothing_and_changes_nothing(
    rule: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, None)
    sent = updates(8, 5)
    kept: dict[str, Any] = {c: {n: v.clone() for n, v in u.items()} for c, u in sent.items()}
    logger = logging.getLogger("flwr")
    filters = list(logger.filters)
    logger.addHandler(caplog.handler)
    try:
        combine_by_rule(rule, sent, 1, 0.2)
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.records == []
    assert logger.filters == filters
    assert all(torch.equal(sent[c][n], kept[c][n]) for c in sent for n in sent[c])
