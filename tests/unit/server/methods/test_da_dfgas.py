"""The server of DA-DFGAS: smoothing, what updates consist of, who lagging behind."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.supernet.architecture import FALLBACK, Architecture
from fedtag.common.models.supernet.discretisation import discretised
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import used_names
from fedtag.common.secure.phases import USE
from fedtag.common.wire.records import Content, Reply
from fedtag.server.methods.da_dfgas.method import METHOD, lagging, smoothing
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState
from fedtag.server.strategies.aggregation import Aggregation

AGREEMENT = Agreement(("a", "b", "c"), 5, "features.npy")


def dotted(name: str) -> str:
    table, _, key = name.rpartition("__")
    return f"{table}.{key.replace('_', '-')}" if table else key


def context(**changes: Any) -> ServerContext:
    return ServerContext(config(**changes))


def config(**changes: Any) -> RunConfig:
    flat = {dotted(name): value for name, value in changes.items()}
    return RunConfig.from_flat({"method": "da_dfgas", "rounds": 4, "clients": 3, "model.hidden": 4, **flat})


def reply(client: str, accuracy: float | None = None, **values: Any) -> Reply:
    told = {} if accuracy is None else {"statistics": {"accuracy": accuracy}}
    return Reply("run", 1, 1, "train", client, Content({}, {**told, **values}))


def moved(state: ServerState, own: ServerContext, size: float = 1.0) -> ServerState:
    step = {name: torch.full_like(value, size) for name, value in state.section("model").items()}
    aggregate, _ = Aggregation(own.settings, lambda n: b"0" * n).moved(
        state.section("model"), step, {"a": 1.0}, {}
    )
    after, weights = METHOD.combine(state, TRAIN, {}, aggregate, own)
    assert weights == {"a": 1.0}
    return after


def test_smoothing_goes_from_its_start_to_one() -> None:
    assert smoothing(0, 0.5, 60) == 0.5
    assert smoothing(60, 0.5, 60) == pytest.approx(1 - 0.5 / math.e)
    assert [smoothing(t, 0.5, 60) for t in range(99)] == sorted(smoothing(t, 0.5, 60) for t in range(99))
    assert smoothing(10**6, 0.5, 60) == 1


def test_logits_move_by_what_smoothing_leaves() -> None:
    """α^t = γ_t α^{t−1} + (1 − γ_t) mean, whatever the server optimiser does to weights."""
    own = context(aggregation__server_rate=0.5)
    state = METHOD.begin(AGREEMENT, own)
    before = state.section("model")
    after = moved(state, own).section("model")
    for name, value in after.items():
        share = 1 - smoothing(1, 0.5, 60.0) if is_architecture(name) else 0.5
        torch.testing.assert_close(value, before[name] + share)


def test_updates_have_what_the_round_is_about() -> None:
    own = context()
    state = METHOD.begin(AGREEMENT, own)
    everything = {f"update/{name}" for name in state.section("model")}
    assert METHOD.expected(state, TRAIN, own).keys() == everything
    state = moved(state, own)
    assert METHOD.expected(state, TRAIN, own).keys() == everything
    forms = METHOD.expected(moved(state, own), TRAIN, own)
    assert not any(is_architecture(name.removeprefix("update/")) for name in forms)
    assert not forms["update/first.weight"].optional
    assert forms["update/second.weight"].optional
    assert forms["update/cells.0.projection.1.weight"].optional


def test_one_architecture_for_all_has_exact_updates() -> None:
    own = context(da_dfgas__personal=False)
    state = moved(moved(METHOD.begin(AGREEMENT, own), own), own)
    forms = METHOD.expected(state, TRAIN, own)
    used = used_names(discretised(state.section("model"), 0.1))
    assert forms.keys() == {f"update/{name}" for name in used}
    assert not any(form.optional for form in forms.values())


def test_a_round_without_contributors_counts_as_a_round() -> None:
    own = context()
    state = METHOD.begin(AGREEMENT, own)
    for number in (1, 2):
        state, _ = METHOD.combine(state, TRAIN, {}, Aggregate({}, {}, {}), own)
        assert state.values["round"] == number
    assert state.values["used"] == "own"


def test_who_lags_is_told_to_work_longer() -> None:
    own = context()
    state = METHOD.begin(AGREEMENT, own)
    replies = {
        name: reply(name, accuracy) for name, accuracy in (("a", 0.9), ("b", 0.8), ("c", 0.69), ("d", None))
    }
    state, _ = METHOD.combine(state, TRAIN, replies, Aggregate({}, {}, {}), own)
    # All are told the same, so that under masks nobody can be made to stand alone.
    for name in ("a", "b", "c", "d", None):
        assert METHOD.instruct(state, TRAIN, name, own).values["longer"] == ["c"]
    assert "longer" not in METHOD.instruct(state, TRAIN, "c", context(da_dfgas__adaptive=False)).values
    assert lagging({"a": 0.9, "b": 0.5}, 0.4) == []
    assert lagging({"a": 0.9, "b": 0.5}, 0.95) == ["a", "b"]
    assert lagging({}, 0.0) == []


def test_architectures_are_kept_and_become_documents() -> None:
    own = context()
    told = {**Architecture((FALLBACK,)).as_json(), "parameters": 7}
    state = METHOD.begin(AGREEMENT, own)
    state, _ = METHOD.combine(state, TRAIN, {"a": reply("a", architecture=told)}, Aggregate({}, {}, {}), own)
    state, _ = METHOD.combine(state, TRAIN, {"b": reply("b")}, Aggregate({}, {}, {}), own)
    documents = METHOD.documents(state, own)
    assert documents.keys() == {"architectures/a.json", "architectures/a.svg"}
    assert documents["architectures/a.svg"].startswith("<svg")


def test_clients_count_what_they_use_by_the_logits_alone() -> None:
    own = context(privacy__secure_aggregation=True, aggregation__statistics="previous")
    state = METHOD.begin(AGREEMENT, own)
    told = METHOD.instruct(state, Phase(USE, "", gathers="sum"), "a", own)
    assert told.section("model")
    assert all(is_architecture(name) for name in told.section("model"))
    assert len(told.tensors) == len(told.section("model"))


def test_a_supernet_is_released_only_if_nothing_else_comes() -> None:
    assert [METHOD.releasable(number, context()) for number in (1, 2, 3, 4)] == [False, False, True, True]
    assert METHOD.releasable(1, context(da_dfgas__search_share=1.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"clients": 2, "privacy__secure_aggregation": True, "aggregation__statistics": "previous"},
            "only what 3 clients use is summed, and of 2 with architectures of their own nothing is",
        ),
        ({"aggregation__rule": "median", "aggregation__weights": "uniform"}, "different tensors"),
        (
            {
                "privacy__dp.mode": "central",
                "aggregation__weights": "uniform",
                "aggregation__normalise": "none",
            },
            "public number of contributors",
        ),
    ],
)
def test_architectures_of_ones_own_exclude_what_looks_at_whole_updates(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        config(**changes)
    assert not config(**changes, da_dfgas__personal=False).own(DaDfgasConfig).personal


def test_retraining_starts_from_the_initial_weights_in_the_found_architecture() -> None:
    own = context(da_dfgas__search_share=0.5, aggregation__average_decay=0.5)
    initial = METHOD.begin(AGREEMENT, own).section("model")
    first = moved(METHOD.begin(AGREEMENT, own), own)
    assert not first.section("searched")
    second = moved(first, own)
    for name, value in second.section("model").items():
        if is_architecture(name):
            assert value.equal(second.section("searched")[name])
            assert not value.equal(initial[name])
        elif name.endswith(".gain"):
            assert value.equal(torch.ones(1))
        else:
            assert value.equal(initial[name])
    # What the search left is scored, and then forgotten; averages begin anew.
    torch.testing.assert_close(second.section("searched")["first.bias"], initial["first.bias"] + 2)
    third = moved(second, own)
    assert not third.section("searched")
    assert third.values["averaged"] == 1
    assert third.section("average")["first.weight"].equal(third.section("model")["first.weight"])


def test_the_search_ends_when_the_architecture_is_stable() -> None:
    """Equal steps on all logits leave every softmax, so that the entropy stays for five rounds, no fewer."""
    own = context(rounds=20, da_dfgas__stable_entropy=1e-6)
    state = METHOD.begin(AGREEMENT, own)
    for number in range(1, 7):
        assert state.values["search_rounds"] is None, number
        assert "search_rounds" not in METHOD.instruct(state, TRAIN, "a", own).values
        state = moved(state, own)
    assert state.values["search_rounds"] == 6
    assert METHOD.instruct(state, TRAIN, "a", own).values["search_rounds"] == 6
    assert state.values["used"] == "own"
    assert state.section("searched")
    state = moved(state, own)
    assert len(state.values["entropies"]) == 6
    assert state.values["search_rounds"] == 6
    never = METHOD.begin(AGREEMENT, context(rounds=20))
    for _ in range(10):
        never = moved(never, context(rounds=20))
    assert never.values["search_rounds"] is None
    assert not METHOD.instruct(never, TRAIN, "a", context(rounds=20)).values.get("search_rounds")
