from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.numerics.clipping import l2_norm
from fedtag.server.protocol.phases import Phase
from fedtag.server.strategies.aggregation import NOTHING, Aggregation, check_phases, masked_mean
from fedtag.server.strategies.weights import ClientStatistics

Updates = dict[str, dict[str, Tensor]]


def aggregation(entropy: Any = None, **settings: Any) -> Aggregation:
    flat = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
    config = RunConfig.from_flat({"method": "fedavg", "clients": 3, **flat})
    return Aggregation(config, entropy or np.random.default_rng(0).bytes)


def update(*values: float) -> dict[str, Tensor]:
    return {"w": torch.tensor(values), "b": torch.tensor([sum(values)])}


UPDATES: Updates = {"a": update(1.0, 2.0), "b": update(-3.0, 0.5), "c": update(0.0, 8.0)}
STEP = Phase("train", "why", gathers="step")
WEIGHTS = {"a": 0.5, "b": 0.3, "c": 0.2}


def exact_sum(factors: dict[str, float]) -> list[float]:
    return [sum(factors[c] * float(UPDATES[c]["w"][k]) for c in factors) for k in (0, 1)]


def test_weights_are_those_of_the_settings() -> None:
    nodes = {"b": 30, "a": 10, "idle": 0}
    assert aggregation().weights(STEP, nodes, {}) == {"a": 0.25, "b": 0.75}
    assert aggregation(aggregation__weights="uniform").weights(STEP, nodes, {}) == {"a": 0.5, "b": 0.5}
    aware = aggregation(aggregation__weights="distribution-aware")
    assert aware.weights(STEP, nodes, {}) == {"a": 0.25, "b": 0.75}
    alike = ClientStatistics((0.5, 0.5), 1.0, 0.8)
    better = ClientStatistics((0.5, 0.5), 1.0, 0.4)
    assert aware.weights(STEP, nodes, {"a": alike, "b": better}) == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    assert aggregation().weights(STEP, {"idle": 0}, {}) == {}


def test_a_mean_is_the_weighted_sum() -> None:
    step, weights = aggregation().combined(UPDATES, WEIGHTS, {})
    assert weights == WEIGHTS
    assert step["w"].tolist() == pytest.approx(exact_sum(WEIGHTS))
    assert step["w"].dtype == torch.float32


def test_only_clients_with_a_weight_count() -> None:
    step, weights = aggregation().combined({**UPDATES, "idle": {}}, {"a": 1.0}, {})
    assert weights == {"a": 1.0}
    assert step["w"].tolist() == UPDATES["a"]["w"].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation__normalise": "fednova"},
        {"aggregation__rule": "median"},
        {"privacy__dp__mode": "central", "aggregation__weights": "uniform"},
    ],
)
def test_nobody_contributes_nothing(settings: dict[str, Any]) -> None:
    one = aggregation(**settings)
    assert one.combined({}, {}, {}) == ({}, {})
    model = {"w": torch.zeros(2)}
    assert one.moved(model, {}, {}, {"kept": torch.ones(1)}) == (NOTHING, {"kept": torch.ones(1)})


def test_fednova_is_equation_13() -> None:
    """w + τ_eff Σ w_i Δ_i / a_i with τ_eff = Σ w_i a_i."""
    steps = {"a": 2.0, "b": 5.0, "c": 3.0}
    effective = sum(WEIGHTS[c] * steps[c] for c in steps)
    one = aggregation(aggregation__normalise="fednova", train__epochs=5)
    step, weights = one.combined(UPDATES, WEIGHTS, steps)
    assert step["w"].tolist() == pytest.approx(
        exact_sum({c: effective * WEIGHTS[c] / steps[c] for c in steps})
    )
    assert weights == pytest.approx(WEIGHTS)
    # Who took no step is left out, and who claims more than it can have taken.
    for wrong in (0.0, 5.1, 1e8):
        step, weights = one.combined(UPDATES, WEIGHTS, {**steps, "c": wrong})
        assert weights == pytest.approx({"a": 0.625, "b": 0.375})
        effective = 0.625 * 2 + 0.375 * 5
        factors = {"a": effective * 0.625 / 2, "b": effective * 0.375 / 5}
        assert step["w"].tolist() == pytest.approx(exact_sum(factors))
    assert one.combined(UPDATES, WEIGHTS, {}) == ({}, {})


def test_equal_steps_make_fednova_a_mean() -> None:
    one = aggregation(aggregation__normalise="fednova")
    step, _ = one.combined(UPDATES, WEIGHTS, dict.fromkeys(UPDATES, 3.0))
    plain, _ = aggregation().combined(UPDATES, WEIGHTS, {})
    assert torch.allclose(step["w"], plain["w"])


def test_a_rule_weighs_all_alike() -> None:
    step, weights = aggregation(aggregation__rule="median").combined(UPDATES, WEIGHTS, {})
    assert step["w"].tolist() == [0.0, 2.0]
    assert weights == pytest.approx(dict.fromkeys(UPDATES, 1 / 3))


def test_a_rule_takes_normalised_updates() -> None:
    one = aggregation(aggregation__rule="median", aggregation__normalise="fednova", train__epochs=9)
    step, _ = one.combined(UPDATES, dict.fromkeys(UPDATES, 1 / 3), {"a": 1.0, "b": 1.0, "c": 4.0})
    assert step["w"].tolist() == pytest.approx([0.0, 4.0])  # τ_eff = 2: factors 2, 2 and 1/2


def test_the_server_takes_the_step() -> None:
    model, step = {"w": torch.tensor([1.0, 1.0])}, {"w": torch.tensor([0.5, -1.0])}
    plain, memory = aggregation().moved(model, step, WEIGHTS, {})
    assert plain.moved["w"].tolist() == [1.5, 0.0]
    assert (dict(plain.step), plain.weights, memory) == (step, WEIGHTS, {})
    half, _ = aggregation(aggregation__server_rate=0.5).moved(model, step, WEIGHTS, {})
    assert half.moved["w"].tolist() == [1.25, 0.5]
    heavy = aggregation(aggregation__server_optimiser="momentum", aggregation__server_momentum=0.5)
    first, memory = heavy.moved(model, step, WEIGHTS, {})
    second, _ = heavy.moved(first.moved, step, WEIGHTS, memory)
    assert second.moved["w"].tolist() == pytest.approx([1 + 0.5 + 0.75, 1 - 1 - 1.5])
    assert model["w"].tolist() == [1.0, 1.0]


def central(noise: float, clip: float, clients: int, entropy: Any = None) -> Aggregation:
    return aggregation(
        entropy,
        privacy__dp__mode="central",
        privacy__dp__noise=noise,
        privacy__dp__clip=clip,
        aggregation__weights="uniform",
        clients=clients,
    )


def test_a_private_mean_has_a_public_denominator() -> None:
    """Σ clip(Δ_i) / N, with N of the settings, whoever came; weights play no part."""
    one = central(0.0, 1e9, clients=10)
    step, weights = one.combined(UPDATES, WEIGHTS, {})
    assert step["w"].tolist() == pytest.approx(exact_sum(dict.fromkeys(UPDATES, 0.1)))
    assert weights == WEIGHTS
    alone, _ = one.combined(UPDATES, {"a": 1.0}, {})
    assert alone["w"].tolist() == pytest.approx(exact_sum({"a": 0.1}))


def test_a_private_mean_is_clipped_client_by_client() -> None:
    step, _ = central(0.0, 1.0, clients=4).combined(UPDATES, WEIGHTS, {})
    factors = {client: min(1.0, 1 / l2_norm(one)) / 4 for client, one in UPDATES.items()}
    assert step["w"].tolist() == pytest.approx(exact_sum(factors), rel=1e-6)
    # One client alone moves it by no more than S/N, however long its update is.
    long = {**UPDATES, "a": {name: value * 1e6 for name, value in UPDATES["a"].items()}}
    moved, _ = central(0.0, 1.0, clients=4).combined(long, WEIGHTS, {})
    without, _ = central(0.0, 1.0, clients=4).combined(UPDATES, {"b": 0.5, "c": 0.5}, {})
    assert l2_norm({name: moved[name] - without[name] for name in moved}) <= 0.25 * (1 + 1e-6)


def test_the_noise_of_a_private_mean_is_normal_of_deviation_noise_times_clip_over_clients() -> None:
    size = 40_000
    updates = {client: {"w": torch.zeros(size)} for client in "abc"}
    one = central(1.5, 0.4, clients=6, entropy=np.random.default_rng(7).bytes)
    step, _ = one.combined(updates, dict.fromkeys("abc", 1 / 3), {})
    again, _ = one.combined(updates, dict.fromkeys("abc", 1 / 3), {})
    deviation = 1.5 * 0.4 / 6
    values = step["w"].double() / deviation
    assert abs(float(values.mean())) < 5 / math.sqrt(size)
    assert float(values.std()) == pytest.approx(1.0, abs=5 / math.sqrt(2 * size))
    # Kurtosis 3, with deviation √(24/n).
    assert float(values.pow(4).mean()) == pytest.approx(3.0, abs=5 * math.sqrt(96 / size))
    other = again["w"].double() / deviation
    assert abs(float((values * other).mean())) < 5 / math.sqrt(size)


@given(
    st.floats(1e-3, 1.0),
    st.floats(1e-3, 100.0),
    st.lists(st.floats(-10, 10), min_size=1, max_size=5),
    st.booleans(),
)
def test_a_masked_mean_is_equation_13(weight: float, steps: float, total: list[float], nova: bool) -> None:
    found = masked_mean({"w": torch.tensor(total, dtype=torch.float64)}, weight, steps, nova)
    effective = steps / weight if nova else 1.0
    assert found["w"].tolist() == pytest.approx([effective * value / weight for value in total])


def test_a_masked_mean_is_the_plain_one_of_the_survivors() -> None:
    survivors, steps = {"a": 0.5, "c": 0.2}, {"a": 2.0, "c": 3.0}
    shares = {client: weight / 0.7 for client, weight in survivors.items()}
    for nova in (False, True):
        factors = {c: w / steps[c] if nova else w for c, w in survivors.items()}
        total = {"w": torch.tensor(exact_sum(factors), dtype=torch.float64)}
        walked = sum(survivors[c] * steps[c] for c in survivors)
        found = masked_mean(total, 0.7, walked, nova)
        settings = {"aggregation__normalise": "fednova"} if nova else {}
        plain, _ = aggregation(**settings).combined(UPDATES, shares, steps)
        assert found["w"].tolist() == pytest.approx(plain["w"].tolist())


@pytest.mark.parametrize(
    ("weight", "steps", "nova"),
    [(0.0, 1.0, False), (-0.1, 1.0, False), (math.nan, 1.0, False), (math.inf, 1.0, True), (0.5, 0.0, True)],
)
def test_a_masked_mean_of_nothing_is_nothing(weight: float, steps: float, nova: bool) -> None:
    assert masked_mean({"w": torch.ones(2)}, weight, steps, nova) == {}


def test_no_steps_matter_only_to_fednova() -> None:
    assert masked_mean({"w": torch.ones(1)}, 0.5, 0.0, False)["w"].tolist() == [2.0]


LOGITS = "architecture.0.filter_edges"


def test_logits_of_an_architecture_are_averaged_without_fednova() -> None:
    """Steps of the weights have not moved them."""
    updates = {"a": {"w": torch.tensor([1.0]), LOGITS: torch.tensor([1.0])}} | {
        "b": {"w": torch.tensor([1.0]), LOGITS: torch.tensor([3.0])}
    }
    settings = {"aggregation__normalise": "fednova", "train__epochs": 10}
    step, _ = aggregation(**settings).combined(updates, {"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 4.0})
    assert step["w"].item() == pytest.approx(2.5 * (0.5 + 0.5 / 4))
    assert step[LOGITS].item() == pytest.approx(2.0)
    total = {"w": torch.tensor([0.5 + 0.5 / 4]), LOGITS: torch.tensor([2.0])}
    masked = masked_mean(total, 1.0, 2.5, True)
    for name, value in step.items():
        torch.testing.assert_close(masked[name], value)


def test_a_tensor_that_nobody_used_stays() -> None:
    model = {"w": torch.tensor([1.0, 2.0]), "unused": torch.tensor([3.0])}
    for optimiser in ("none", "momentum", "adam"):
        after, _ = aggregation(aggregation__server_optimiser=optimiser).moved(
            model, {"w": torch.ones(2)}, {"a": 1.0}, {}
        )
        assert after.moved["unused"].tolist() == [3.0]
        assert not after.moved["w"].equal(model["w"])


STEP, SUM, EACH, LETTERS = (
    Phase("train", "moves the model", gathers="step"),
    Phase("count", "sums over nodes", gathers="sum"),
    Phase("show", "stays single", gathers="each"),
    Phase("write", "letters alone", letters=True),
)
SECURE = {"privacy.secure-aggregation": True}
NOISED = {"privacy.dp.mode": "central", "aggregation.weights": "uniform"}
MEDIAN = {"aggregation.rule": "median"}


@pytest.mark.parametrize(
    ("phase", "settings", "sentence"),
    [
        (
            SUM,
            MEDIAN,
            "aggregation.rule = median: phase 'count' of method fedavg gathers sums .*: set it to mean",
        ),
        (SUM, {"aggregation.normalise": "fednova"}, "normalise = fednova: phase 'count' .*: set it to none"),
        (SUM, NOISED, "privacy.dp.mode = central: phase 'count' .*: set it to off"),
        (EACH, SECURE, "privacy.secure-aggregation = true: phase 'show' .* singly: set it to false"),
        (EACH, NOISED, "privacy.dp.mode = central: phase 'show' .*: set it to off"),
        (EACH, MEDIAN, "aggregation.rule = median: phase 'show' .*: set it to mean"),
        (SUM, SECURE, ""),
        *((phase, settings, "") for phase in (STEP, LETTERS) for settings in (SECURE, NOISED, MEDIAN)),
        *((phase, {}, "") for phase in (STEP, SUM, EACH, LETTERS)),
    ],
)
def test_what_an_exchange_gathers_says_what_may_be_done_with_it(
    phase: Phase, settings: dict[str, Any], sentence: str
) -> None:
    config = RunConfig.from_flat({"method": "fedavg", "clients": 3, **settings})
    if not sentence:
        check_phases([STEP, phase], config)
        return
    with pytest.raises(ConfigError, match=sentence):
        check_phases([STEP, phase], config)


def test_an_update_much_longer_than_the_median_is_cut_to_it() -> None:
    updates = {
        "a": update(3.0, 4.0),
        "b": update(-3.0, 4.0),
        "c": update(300.0, 400.0),
        "d": update(0.0, 0.0),
    }
    kept, cut = aggregation().bounded(updates, {})
    usual = (l2_norm(updates["a"]) + l2_norm(updates["b"])) / 2
    assert cut == {"c": pytest.approx(l2_norm(updates["c"]) / usual)}
    assert l2_norm(kept["c"]) == pytest.approx(usual)
    direction = kept["c"]["w"] / updates["c"]["w"]
    assert torch.allclose(direction, direction[0].expand(2))
    assert all(kept[client] is updates[client] for client in ("a", "b", "d"))
    for off in ({"aggregation__norm_factor": 0.0}, {"aggregation__norm_factor": 1000.0}):
        assert aggregation(**off).bounded(updates, {}) == (updates, {})
    two = {client: updates[client] for client in ("a", "c")}
    assert aggregation().bounded(two, {}) == (two, {})


def test_longer_work_is_no_longer_update_where_it_is_divided_by_its_steps() -> None:
    one = aggregation(aggregation__normalise="fednova")
    updates = {"a": update(1.0, 0.0), "b": update(0.0, 1.0), "c": update(10.0, 0.0)}
    assert one.bounded(updates, {"a": 1.0, "b": 1.0, "c": 10.0})[1] == {}
    kept, cut = one.bounded(updates, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert cut.keys() == {"c"}
    assert l2_norm(kept["c"]) == pytest.approx(l2_norm(updates["a"]))
    assert aggregation().bounded(updates, {})[1].keys() == {"c"}


def test_a_group_far_longer_than_the_others_is_outlying() -> None:
    means = {"a, b, c": update(1.0, 0.0), "d, e, f": update(0.0, 1.5), "g, h, i": update(-40.0, 0.0)}
    assert aggregation().outlying(means).keys() == {"g, h, i"}
    assert aggregation(aggregation__norm_factor=0.0).outlying(means) == {}
    assert aggregation().outlying({name: means[name] for name in ("a, b, c", "g, h, i")}) == {}
    alike = {**means, "g, h, i": update(2.0, 2.0)}
    assert aggregation().outlying(alike) == {}
