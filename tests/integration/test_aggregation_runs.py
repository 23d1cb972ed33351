"""Screening, rules, server optimisers, weights and central noise, from end to end on tiny graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedtag.common.models.parameters import fingerprint
from fedtag.common.numerics.clipping import l2_norm
from fedtag.common.wire.records import Instruction, Reply

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

Settings = dict[str, object]
SECURE: Settings = {"privacy.secure-aggregation": True}
DP: Settings = {"aggregation.weights": "uniform", "privacy.dp.clip": 0.5, "privacy.dp.noise": 0.8}
CENTRAL: Settings = {**DP, "privacy.dp.mode": "central"}
DISTRIBUTED: Settings = {**DP, **SECURE, "privacy.hide-statistics": True, "privacy.dp.mode": "distributed"}


def scaled(factor: float) -> Callable[[str, Instruction, Reply], Reply]:
    """The last client's update, many times too long."""

    def act(client: str, told: Instruction, reply: Reply) -> Reply:
        if client != "site-3":
            return reply
        tensors = {
            name: value * factor if name.startswith("update/") else value
            for name, value in reply.content.tensors.items()
        }
        return replace(reply, content=replace(reply.content, tensors=tensors))

    return act


def distance(one: Tried, other: Tried) -> float:
    return l2_norm({name: value - other.state[name] for name, value in one.state.items()})


def model(run: Tried) -> str:
    return fingerprint(run.state)


def rows_of(run: Tried, number: int) -> dict[str, dict[str, Any]]:
    return {row["client"]: row for row in run.lines("clients") if row["round"] == number}


def test_too_long_an_update_is_left_out_and_its_client_named(tiny: Tiny) -> None:
    honest = tiny({"rounds": 2})
    longest = max(l2_norm(reply.content.section("update")) for reply in honest.replies("train"))
    run = tiny({"rounds": 2, "aggregation.max-update-norm": 2 * longest}, clients=4, answer=scaled(1000))
    assert model(run) == model(honest)
    for number in (1, 2):
        rows = rows_of(run, number)
        (failed,) = (row for row in rows.values() if row["failed"])
        assert failed["client"] in ("site-3", "node 5")
        assert "exceeds aggregation.max-update-norm" in failed["failed"]
    assert "the update's L2 norm" in run.notes
    assert [row["clients_failed"] for row in run.lines("metrics")] == [1, 1]
    # The same bound leaves out nobody who is honest.
    assert (
        tiny({"rounds": 2, "aggregation.max-update-norm": 2 * longest}).lines("metrics")[1]["clients_ok"] == 3
    )


@pytest.mark.parametrize(
    "rule", [{"aggregation.rule": "median"}, {"aggregation.rule": "trimmed-mean", "aggregation.trim": 0.25}]
)
def test_a_robust_rule_ignores_one_update_that_is_too_long(tiny: Tiny, rule: Settings) -> None:
    settings: Settings = {"rounds": 1, "aggregation.norm-factor": 0.0}
    moved = {
        name: distance(
            tiny({**settings, **way}, clients=4), tiny({**settings, **way}, clients=4, answer=scaled(1e4))
        )
        for name, way in (("mean", {}), ("robust", rule))
    }
    assert moved["mean"] > 100
    assert moved["robust"] < 1
    run = tiny({**settings, **rule}, clients=4, answer=scaled(1e4))
    assert [row["weight"] for row in rows_of(run, 1).values()] == [0.25] * 4


class KilledError(Exception):
    """The server's process is gone."""


@pytest.mark.parametrize("kind", ["momentum", "adam", "yogi", "adagrad"])
def test_a_server_optimiser_goes_on_where_it_stopped(tiny: Tiny, kind: str) -> None:
    settings: Settings = {"aggregation.server-optimiser": kind, "aggregation.server-rate": 0.1}
    whole = tiny(settings)
    place = tiny.new_place()

    def kill(client: str, told: Instruction) -> Instruction:
        if told.round == 3:
            raise KilledError
        return told

    with pytest.raises(KilledError):
        tiny(settings, place=place, tell=kill)
    again = tiny(settings, place=place)
    assert model(again) == model(whole)
    assert set(again.rounds.run_state.memory) == set(whole.rounds.run_state.memory)
    assert again.rounds.run_state.memory
    for name, value in whole.rounds.run_state.memory.items():
        assert torch.equal(value, again.rounds.run_state.memory[name])


def test_a_server_optimiser_works_on_masked_sums(tiny: Tiny) -> None:
    settings: Settings = {"aggregation.server-optimiser": "momentum", "rounds": 2}
    plain, secure = tiny(settings), tiny({**settings, **SECURE})
    assert distance(plain, secure) < 1e-5


def test_statistics_of_the_round_before_survive_a_stop(tiny: Tiny) -> None:
    settings: Settings = {"aggregation.weights": "distribution-aware", "aggregation.statistics": "previous"}
    whole, place = tiny(settings), tiny.new_place()

    def kill(client: str, told: Instruction) -> Instruction:
        if told.round == 3:
            raise KilledError
        return told

    with pytest.raises(KilledError):
        tiny(settings, place=place, tell=kill)
    again = tiny(settings, place=place)
    assert model(again) == model(whole)
    for number in (1, 2, 3):
        assert {name: row["weight"] for name, row in rows_of(again, number).items()} == {
            name: row["weight"] for name, row in rows_of(whole, number).items()
        }


def test_previous_statistics_lag_by_a_round(tiny: Tiny) -> None:
    """With models that do not move, the statistics of all rounds are alike but for the sample of nodes."""
    settings: Settings = {"aggregation.weights": "distribution-aware", "rounds": 3}
    current = tiny({**settings, "aggregation.statistics": "current"})
    previous = tiny({**settings, "aggregation.statistics": "previous"})
    first = rows_of(previous, 1)
    nodes = {name: row["train_nodes"] for name, row in first.items()}
    total = sum(nodes.values())
    assert {name: row["weight"] for name, row in first.items()} == pytest.approx(
        {name: count / total for name, count in nodes.items()}
    )
    assert all(row["statistics"] == {} for row in first.values())
    assert all(set(row["statistics"]) >= {"accuracy", "attention"} for row in rows_of(current, 1).values())
    told = {
        reply.client: reply.content.values["statistics"]
        for reply in previous.replies("train")
        if reply.round == 1
    }
    second = rows_of(previous, 2)
    for client, statistics in told.items():
        assert second[client]["statistics"]["attention"] == pytest.approx(statistics["attention"])
    for run, lag in ((current, 0), (previous, 1)):
        assert run.summary is not None
        assert run.summary.weights_lag == lag


def test_a_weak_client_works_longer(tiny: Tiny) -> None:
    """The threshold lies between the clients' accuracies, as a run without it tells them."""
    base: Settings = {"train.epochs": 5, "train.learning-rate": 0.05, "rounds": 6, "train.optimizer": "sgd"}
    # With fewer than 4 validation nodes an accuracy says nothing, and a client never works longer.
    accuracies = {
        name: row["val_accuracy"] for name, row in rows_of(tiny(base), 5).items() if row["val_nodes"] >= 4
    }
    weakest, strongest = min(accuracies.values()), max(accuracies.values())
    assert weakest < strongest
    threshold = (weakest + strongest) / 2
    run = tiny(
        {
            **base,
            "train.accuracy-threshold": threshold,
            "train.extra-epochs": 3,
            "aggregation.normalise": "fednova",
        }
    )
    # The accuracy that decides is that of the model received in a round, which the row before has.
    for number in range(2, 7):
        before, rows = rows_of(run, number - 1), rows_of(run, number)
        for client, row in rows.items():
            longer = row["val_nodes"] >= 4 and before[client]["val_accuracy"] < threshold
            assert row["steps"] == (8 if longer else 5)
            steps, rho = row["steps"], 0.9
            assert row["normaliser"] == pytest.approx(
                (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
            )
    every = [row["steps"] for number in range(2, 7) for row in rows_of(run, number).values()]
    assert set(every) == {5, 8}


def test_central_noise_is_accounted_for_and_the_last_model_released(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtag.server.run.rounds.entropy_generator", lambda: np.random.default_rng(4).bytes)
    run = tiny({**CENTRAL, "rounds": 4})
    assert run.summary is not None
    privacy = run.summary.privacy
    assert privacy is not None
    # T Gaussian mechanisms are one of noise σ/√T: δ(ε) has a closed form (Balle and Wang, 2018, Theorem 8).
    sigma = 0.8 / math.sqrt(4)
    epsilon = privacy["epsilon"]
    normal = torch.distributions.Normal(0.0, 1.0)

    def below(value: float) -> float:
        return float(normal.cdf(torch.tensor(value, dtype=torch.float64)))

    delta = below(1 / (2 * sigma) - epsilon * sigma) - math.exp(epsilon) * below(
        -1 / (2 * sigma) - epsilon * sigma
    )
    assert delta == pytest.approx(1e-5, rel=0.02)
    assert (privacy["unit"], privacy["mode"], privacy["rounds"], privacy["delta"]) == (
        "one institution",
        "central",
        4,
        1e-5,
    )
    accuracies = [row["val_accuracy"] for row in run.lines("metrics")]
    assert max(accuracies) > accuracies[-1]  # by validation another model would be released
    assert run.summary.best_round == 4
    assert fingerprint(run.rounds.run_state.best) == fingerprint(weights_of(run))
    # What clients sent was clipped there already.
    norms = [l2_norm(reply.content.section("update")) for reply in run.replies("train")]
    assert max(norms) <= 0.5
    assert (
        max(l2_norm(reply.content.section("update")) for reply in tiny({"rounds": 1}).replies("train")) > 0.1
    )


def weights_of(run: Tried) -> Mapping[str, Tensor]:
    assert run.rounds.run_state.state is not None
    return run.rounds.run_state.state.section("model")


def test_central_noise_is_drawn_anew_in_every_run(tiny: Tiny) -> None:
    runs = [tiny({**CENTRAL, "rounds": 1}) for _ in range(2)]
    assert model(runs[0]) != model(runs[1])
    updates = [
        {reply.client: fingerprint(reply.content.tensors) for reply in run.replies("train")} for run in runs
    ]
    assert updates[0] == updates[1]  # the clients did the same
    # The difference of two noises of deviation σS/N each.
    states = [torch.cat([value.flatten() for value in weights_of(run).values()]) for run in runs]
    deviation = float((states[0] - states[1]).std())
    assert deviation == pytest.approx(math.sqrt(2) * 0.8 * 0.5 / 3, rel=0.4)


def test_distributed_noise_is_in_every_sum(tiny: Tiny) -> None:
    run, quiet = (
        tiny({**DISTRIBUTED, "rounds": 1}, clients=4),
        tiny({**DISTRIBUTED, "rounds": 1, "privacy.dp.noise": 0.0}, clients=4),
    )
    assert run.error is None
    assert run.summary is not None
    assert quiet.summary is not None
    assert run.summary.privacy is not None
    assert quiet.summary.privacy is not None
    # The threshold of 4 is 3, of whom one may reveal its part: each of 4 members adds σS/√2, the denominator is 4.
    noise = torch.cat(
        [(value - weights_of(quiet)[name]).flatten() for name, value in weights_of(run).items()]
    )
    assert float(noise.std()) == pytest.approx(0.8 * 0.5 * math.sqrt(4 / 2) / 4, rel=0.35)
    assert quiet.summary.privacy["epsilon"] is None
    assert run.summary.privacy["epsilon"] > 0
    assert run.summary.privacy["mode"] == "distributed"
    assert run.summary.best_round == 1
    # Without noise it is the clipped mean of central privacy without noise.
    central = tiny({**CENTRAL, "rounds": 1, "privacy.dp.noise": 0.0}, clients=4)
    assert distance(central, quiet) < 1e-6


def test_a_site_without_training_nodes_adds_its_noise(tiny: Tiny) -> None:
    # So many parameters that the deviation is known within a few percent.
    wide: Settings = {**DISTRIBUTED, "rounds": 1, "model.hidden": 64}
    run, quiet = (tiny({**wide, "privacy.dp.noise": scale}, clients=4, idle=[2, 3]) for scale in (0.8, 0.0))
    assert run.error is None
    noise = torch.cat(
        [(value - weights_of(quiet)[name]).flatten() for name, value in weights_of(run).items()]
    )
    # That of all four, as in `test_distributed_noise_is_in_every_sum`; of two alone it would be less by sqrt(2).
    assert float(noise.std()) > 0.85 * 0.8 * 0.5 * math.sqrt(4 / 2) / 4


def test_the_summary_says_nothing_of_what_was_off(tiny: Tiny) -> None:
    run = tiny({"rounds": 1})
    assert run.summary is not None
    assert run.summary.privacy is None
    assert run.summary.weights_lag is None
