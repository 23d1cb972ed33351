from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.exchange.inbox import Inbox
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN, ServerMethod
from fedtag.server.protocol.state import Agreement
from fedtag.server.state.run_state import RunState

CONTEXT = ServerContext(RunConfig.from_flat({"method": "fedavg", "model.hidden": 4}))
AGREED = Agreement(("a", "b"), 3, "features.npy")
SIZES = {"nodes": 5, "train_nodes": 2, "val_nodes": 0, "test_nodes": 0}


def initial() -> dict[str, torch.Tensor]:
    return ServerMethod().initial(AGREED, CONTEXT)


def reply(client: str, agreement: Agreement | None = AGREED, **values: Any) -> Reply:
    told: dict[str, Any] = {"sizes": SIZES, **values}
    if agreement is not None:
        told["introduction"] = {
            "classes": list(agreement.classes),
            "dimension": agreement.dimension,
            "features": agreement.features,
            "encoded_tokens": 10,
        }
    return Reply("run", 1, 1, "train", client, Content(prefixed("update", initial()), told))


def receive(inbox: Inbox, run_state: RunState, arrived: dict[int, Reply]) -> tuple[set[str], dict[str, str]]:
    usable, refused = inbox.receive(arrived, dict.fromkeys(arrived, TRAIN), run_state)
    return set(usable), refused


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(ServerMethod(), CONTEXT)


@pytest.fixture
def run_state() -> RunState:
    return RunState()


def test_the_first_replies_begin_the_state(inbox: Inbox, run_state: RunState) -> None:
    usable, refused = receive(inbox, run_state, {2: reply("x"), 3: reply("y")})
    assert (usable, refused) == ({"x", "y"}, {})
    assert run_state.agreement == AGREED
    assert run_state.state is not None
    assert fingerprint(run_state.state.section("model")) == fingerprint(initial())
    assert run_state.tokens == {"encoder": 20}
    assert inbox.names == {2: "x", 3: "y"}


def test_who_differs_from_the_majority_is_refused_with_the_remedy(inbox: Inbox, run_state: RunState) -> None:
    other_classes, other_features = (
        Agreement(("b", "a"), 3, "features.npy"),
        Agreement(("a", "b"), 3, "encoder x"),
    )
    arrived = {2: reply("w", other_classes), 3: reply("x"), 4: reply("y"), 5: reply("z", other_features)}
    usable, refused = receive(inbox, run_state, arrived)
    assert usable == {"x", "y"}
    assert "agree on one ordered list" in refused["w"]
    assert "use the same encoder" in refused["z"]
    assert 2 not in inbox.names


def test_a_tie_is_decided_by_name_not_by_node(inbox: Inbox, run_state: RunState) -> None:
    other = Agreement(("b", "a"), 3, "features.npy")
    usable, refused = receive(inbox, run_state, {2: reply("z", other), 3: reply("a")})
    assert usable == {"a"}
    assert set(refused) == {"z"}


def test_other_initial_parameters_are_refused_in_round_one(inbox: Inbox, run_state: RunState) -> None:
    right = fingerprint(initial())
    arrived = {2: reply("x", initial=right), 3: reply("y", initial="0" * 64)}
    usable, refused = receive(inbox, run_state, arrived)
    assert usable == {"x"}
    assert "install the same versions" in refused["y"]


def test_a_client_that_does_not_introduce_itself_cannot_begin(inbox: Inbox, run_state: RunState) -> None:
    usable, refused = receive(inbox, run_state, {2: reply("x", None)})
    assert usable == set()
    assert refused == {"x": "the client did not introduce itself"}
    usable, _ = receive(inbox, run_state, {2: reply("x")})
    assert usable == {"x"}


def test_a_malformed_introduction_refuses_its_client_only(inbox: Inbox, run_state: RunState) -> None:
    bad = reply("bad", None, introduction={"classes": 3})
    usable, refused = receive(inbox, run_state, {2: bad, 3: reply("x")})
    assert usable == {"x"}
    assert "does not name the classes" in refused["bad"]


def test_a_faulty_reply_does_not_name_its_node(inbox: Inbox, run_state: RunState) -> None:
    usable, refused = receive(inbox, run_state, {2: reply("x"), 3: reply("y", sizes={})})
    assert usable == {"x"}
    assert refused["y"].startswith("sizes: nodes: ")
    assert inbox.names == {2: "x"}
    assert inbox.label(3, run_state) == "node 3"


def test_a_site_that_comes_back_as_another_node_replaces_the_former(
    inbox: Inbox, run_state: RunState
) -> None:
    receive(inbox, run_state, {2: reply("x"), 3: reply("y")})
    assert inbox.replaced == {}
    receive(inbox, run_state, {3: reply("y"), 7: reply("x")})
    assert inbox.replaced == {2: "x"}
    assert inbox.label(7, run_state) == "x"
    # Whoever took the name for a moment does not bar the one who had it.
    receive(inbox, run_state, {3: reply("y"), 7: reply("z")})
    assert inbox.replaced == {}


def test_messages_call_a_node_by_the_name_that_it_had_before_a_resumption(
    inbox: Inbox, run_state: RunState
) -> None:
    receive(inbox, run_state, {2: reply("x"), 3: reply("y")})
    receive(inbox, run_state, {7: reply("x")})
    resumed = Inbox(ServerMethod(), CONTEXT)
    assert [resumed.label(node, run_state) for node in (2, 3, 7)] == ["node 2", "y", "x"]
    assert resumed.names == {}


def test_of_two_nodes_with_one_name_the_first_counts(inbox: Inbox, run_state: RunState) -> None:
    usable, refused = receive(inbox, run_state, {2: reply("x"), 3: reply("x"), 4: reply("y")})
    assert usable == {"x", "y"}
    assert set(refused) == {"node 3"}
    assert "give each site its own name" in refused["node 3"]
    assert inbox.names == {2: "x", 4: "y"}


def test_a_name_stays_with_the_node_that_had_it(inbox: Inbox, run_state: RunState) -> None:
    receive(inbox, run_state, {2: reply("thief"), 3: reply("x")})
    usable, refused = receive(inbox, run_state, {2: reply("x", None), 3: reply("x", None)})
    assert usable == {"x"}
    assert set(refused) == {"node 2"}
    assert inbox.names[3] == "x"


def test_a_restarted_node_takes_its_name_along(inbox: Inbox, run_state: RunState) -> None:
    receive(inbox, run_state, {2: reply("x"), 3: reply("y")})
    usable, refused = receive(inbox, run_state, {3: reply("y", None), 9: reply("x")})
    assert (usable, refused) == ({"x", "y"}, {})
    assert inbox.names == {3: "y", 9: "x"}


def test_a_late_joiner_must_agree_but_needs_no_initial_parameters(inbox: Inbox, run_state: RunState) -> None:
    receive(inbox, run_state, {2: reply("x")})
    run_state.round = 2
    usable, refused = receive(
        inbox, run_state, {5: reply("late"), 6: reply("other", replace(AGREED, dimension=4))}
    )
    assert usable == {"late"}
    assert set(refused) == {"other"}


def test_a_bound_of_updates_measures_no_sums_over_nodes(run_state: RunState) -> None:
    config = RunConfig.from_flat({**CONTEXT.settings.to_flat(), "aggregation.max-update-norm": 1e-6})
    inbox = Inbox(ServerMethod(), ServerContext(config))
    for phase, refused in ((TRAIN, {"x"}), (replace(TRAIN, gathers="sum"), set())):
        told = inbox.receive({2: reply("x")}, {2: phase}, run_state)[1]
        assert told.keys() == refused
        assert all("exceeds aggregation.max-update-norm" in why for why in told.values())
