from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.records import Content, Reply, prefixed
from fedtag.server.exchange.inbox import Reception
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN, ServerMethod
from fedtag.server.protocol.state import Agreement
from fedtag.server.state.run_state import Standing

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


def receive(
    reception: Reception, standing: Standing, arrived: dict[int, Reply]
) -> tuple[set[str], dict[str, str]]:
    usable, refused = reception.receive(arrived, dict.fromkeys(arrived, TRAIN), standing)
    return set(usable), refused


@pytest.fixture
def reception() -> Reception:
    return Reception(ServerMethod(), CONTEXT)


@pytest.fixture
def standing() -> Standing:
    return Standing()


def test_the_first_replies_begin_the_state(reception: Reception, standing: Standing) -> None:
    usable, refused = receive(reception, standing, {2: reply("x"), 3: reply("y")})
    assert (usable, refused) == ({"x", "y"}, {})
    assert standing.agreement == AGREED
    assert standing.state is not None
    assert fingerprint(standing.state.section("model")) == fingerprint(initial())
    assert standing.tokens == {"encoder": 20}
    assert reception.names == {2: "x", 3: "y"}


def test_who_differs_from_the_majority_is_refused_with_the_remedy(
    reception: Reception, standing: Standing
) -> None:
    other_classes, other_features = (
        Agreement(("b", "a"), 3, "features.npy"),
        Agreement(("a", "b"), 3, "encoder x"),
    )
    arrived = {2: reply("w", other_classes), 3: reply("x"), 4: reply("y"), 5: reply("z", other_features)}
    usable, refused = receive(reception, standing, arrived)
    assert usable == {"x", "y"}
    assert "agree on one ordered list" in refused["w"]
    assert "use the same encoder" in refused["z"]
    assert 2 not in reception.names


def test_a_tie_is_decided_by_name_not_by_node(reception: Reception, standing: Standing) -> None:
    other = Agreement(("b", "a"), 3, "features.npy")
    usable, refused = receive(reception, standing, {2: reply("z", other), 3: reply("a")})
    assert usable == {"a"}
    assert set(refused) == {"z"}


def test_other_initial_parameters_are_refused_in_round_one(reception: Reception, standing: Standing) -> None:
    right = fingerprint(initial())
    arrived = {2: reply("x", initial=right), 3: reply("y", initial="0" * 64)}
    usable, refused = receive(reception, standing, arrived)
    assert usable == {"x"}
    assert "install the same versions" in refused["y"]


def test_a_client_that_does_not_introduce_itself_cannot_begin(
    reception: Reception, standing: Standing
) -> None:
    usable, refused = receive(reception, standing, {2: reply("x", None)})
    assert usable == set()
    assert refused == {"x": "the client did not introduce itself"}
    usable, _ = receive(reception, standing, {2: reply("x")})
    assert usable == {"x"}


def test_a_malformed_introduction_refuses_its_client_only(reception: Reception, standing: Standing) -> None:
    bad = reply("bad", None, introduction={"classes": 3})
    usable, refused = receive(reception, standing, {2: bad, 3: reply("x")})
    assert usable == {"x"}
    assert "does not name the classes" in refused["bad"]


def test_a_faulty_reply_does_not_name_its_node(reception: Reception, standing: Standing) -> None:
    usable, refused = receive(reception, standing, {2: reply("x"), 3: reply("y", sizes={})})
    assert usable == {"x"}
    assert refused["y"].startswith("sizes: nodes: ")
    assert reception.names == {2: "x"}
    assert reception.label(3, standing) == "node 3"


def test_a_site_that_comes_back_as_another_node_replaces_the_former(
    reception: Reception, standing: Standing
) -> None:
    receive(reception, standing, {2: reply("x"), 3: reply("y")})
    assert reception.replaced == {}
    receive(reception, standing, {3: reply("y"), 7: reply("x")})
    assert reception.replaced == {2: "x"}
    assert reception.label(7, standing) == "x"
    # Whoever took the name for a moment does not bar the one who had it.
    receive(reception, standing, {3: reply("y"), 7: reply("z")})
    assert reception.replaced == {}


def test_messages_call_a_node_by_the_name_that_it_had_before_a_resumption(
    reception: Reception, standing: Standing
) -> None:
    receive(reception, standing, {2: reply("x"), 3: reply("y")})
    receive(reception, standing, {7: reply("x")})
    resumed = Reception(ServerMethod(), CONTEXT)
    assert [resumed.label(node, standing) for node in (2, 3, 7)] == ["node 2", "y", "x"]
    assert resumed.names == {}


def test_of_two_nodes_with_one_name_the_first_counts(reception: Reception, standing: Standing) -> None:
    usable, refused = receive(reception, standing, {2: reply("x"), 3: reply("x"), 4: reply("y")})
    assert usable == {"x", "y"}
    assert set(refused) == {"node 3"}
    assert "give each site its own name" in refused["node 3"]
    assert reception.names == {2: "x", 4: "y"}


def test_a_name_stays_with_the_node_that_had_it(reception: Reception, standing: Standing) -> None:
    receive(reception, standing, {2: reply("thief"), 3: reply("x")})
    usable, refused = receive(reception, standing, {2: reply("x", None), 3: reply("x", None)})
    assert usable == {"x"}
    assert set(refused) == {"node 2"}
    assert reception.names[3] == "x"


def test_a_restarted_node_takes_its_name_along(reception: Reception, standing: Standing) -> None:
    receive(reception, standing, {2: reply("x"), 3: reply("y")})
    usable, refused = receive(reception, standing, {3: reply("y", None), 9: reply("x")})
    assert (usable, refused) == ({"x", "y"}, {})
    assert reception.names == {3: "y", 9: "x"}


def test_a_late_joiner_must_agree_but_needs_no_initial_parameters(
    reception: Reception, standing: Standing
) -> None:
    receive(reception, standing, {2: reply("x")})
    standing.round = 2
    usable, refused = receive(
        reception, standing, {5: reply("late"), 6: reply("other", replace(AGREED, dimension=4))}
    )
    assert usable == {"late"}
    assert set(refused) == {"other"}
