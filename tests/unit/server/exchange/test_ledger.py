from __future__ import annotations

from typing import Any

import pytest
import torch

from fedtag.common.methods.records import Record, by_name
from fedtag.common.numerics.scores import tally
from fedtag.common.wire.records import Content, Instruction, Letter, Reply, prefixed
from fedtag.server.exchange.ledger import (
    add_durations,
    client_rows,
    disclosures,
    pool_scores,
    training_row,
    with_scores,
)
from fedtag.server.state.round import Traffic


def counts(path: str, val: tuple[int, int], test: tuple[int, int]) -> dict[str, torch.Tensor]:
    """Scores with so many right of so many nodes."""
    tensors = {}
    for subset, (right, nodes) in (("val", val), ("test", test)):
        logits = torch.eye(2)[(torch.arange(nodes) >= right).long()] * 3
        told = tally(logits, torch.zeros(nodes, dtype=torch.int64), torch.ones(nodes, dtype=torch.bool))
        tensors |= {f"{path}/{subset}/{field}": value for field, value in vars(told).items()}
    return prefixed("scores", tensors)


def reply(client: str, tensors: dict[str, torch.Tensor], **values: Any) -> Reply:
    sizes = {"nodes": 20, "train_nodes": values.pop("train", 5), "val_nodes": 4, "test_nodes": 4}
    return Reply("run", 1, 1, "train", client, Content(tensors, {"sizes": sizes, **values}))


def test_scores_are_pooled_over_nodes_not_over_clients() -> None:
    replies = {
        "x": reply("x", counts("graph", (1, 1), (1, 10))),
        "y": reply("y", counts("graph", (0, 3), (10, 10))),
    }
    pooled = pool_scores(replies, ["graph"], 0.5)
    assert pooled is not None
    assert pooled.val.accuracy == 1 / 4
    assert pooled.test.accuracy == 11 / 20


def test_the_path_is_chosen_by_validation_never_by_test() -> None:
    better_on_test = counts("graph", (1, 4), (4, 4))
    better_on_val = counts("evidence", (2, 4), (0, 4))
    pooled = pool_scores({"x": reply("x", {**better_on_test, **better_on_val})}, ["graph", "evidence"], 0.5)
    assert pooled is not None
    assert (pooled.path, pooled.test.accuracy) == ("evidence", 0)


@pytest.mark.parametrize("val", [(2, 4), (0, 0)])
def test_the_first_of_equal_paths_wins(val: tuple[int, int]) -> None:
    tensors = {**counts("graph", val, (0, 4)), **counts("evidence", val, (4, 4))}
    pooled = pool_scores({"x": reply("x", tensors)}, ["graph", "evidence"], 0.5)
    assert pooled is not None
    assert pooled.path == "graph"


def test_nobody_scoring_is_no_score() -> None:
    assert pool_scores({}, ["graph"], 0.5) is None
    assert pool_scores({"x": reply("x", {})}, ["graph"], 0.5) is None
    row = training_row(1, {}, (0, 0), {}, Traffic(), True)
    assert with_scores(row, None) is row
    assert (row.train_loss, row.effective_ratio, row.local_test_accuracy) == (None, None, None)


def test_a_row_weighs_losses_by_training_nodes_and_ratios_by_nodes() -> None:
    replies = {
        "x": reply("x", counts("local", (1, 4), (2, 4)), train=1, training={"loss": 4.0, "steps": 3}),
        "y": reply(
            "y", {}, train=3, training={"loss": 0.0, "steps": 3}, condensation={"core": 2, "nodes": 20}
        ),
        "z": reply("z", {}, train=0, condensation={"core": 0, "nodes": 0}),
    }
    row = training_row(4, replies, (3, 1), {"train": 2.0, "score": 1.0}, Traffic(10, 20), False)
    assert row.train_loss == 1.0
    assert row.effective_ratio == 0.1
    assert (row.local_val_accuracy, row.local_test_accuracy) == (0.25, 0.5)
    assert (row.clients_ok, row.clients_failed, row.bytes_up, row.bytes_down) == (3, 1, 10, 20)
    assert row.seconds == 3.0


def test_client_rows_name_all_who_scored_or_failed() -> None:
    both = {**counts("graph", (1, 4), (2, 4)), **counts("evidence", (3, 4), (0, 4))}
    replies = {"y": reply("y", both), "x": reply("x", {}, train=0)}
    rows = client_rows(2, replies, {"z": "late"}, {"y": 1.0}, ("graph", "evidence"), "evidence")
    assert [row.client for row in rows] == ["x", "y", "z"]
    x, y, z = rows
    assert (y.val_accuracy, y.test_accuracy, y.weight) == (0.75, 0.0, 1.0)
    assert y.scores == {
        "val_accuracy_graph": 0.25,
        "test_accuracy_graph": 0.5,
        "val_accuracy_evidence": 0.75,
        "test_accuracy_evidence": 0.0,
    }
    # Who has no training node has no weight in the mean; who failed was not there to be weighed.
    assert (x.weight, x.val_accuracy, x.failed) == (0.0, None, None)
    assert (z.weight, z.nodes, z.failed) == (None, None, "late")
    assert (y.steps, y.normaliser, y.statistics) == (None, None, {})
    told = {"y": {"steps": 3, "normaliser": 2.5, "statistics": {"divergence": 0.25}}, "z": {"steps": 1}}
    x, y, z = client_rows(2, replies, {"z": "late"}, {"y": 1.0}, ("graph",), "graph", told)
    assert (x.steps, x.statistics) == (None, {})
    assert (y.steps, y.normaliser, y.statistics) == (3, 2.5, {"divergence": 0.25})
    assert (z.steps, z.normaliser) == (1, None)
    (alone,) = client_rows(2, {"y": reply("y", both)}, {}, {}, ("graph",), "graph")
    assert (alone.weight, alone.scores) == (None, {})


def test_everything_that_crosses_is_disclosed_in_both_directions() -> None:
    letters = (Letter("x", "y", "keys", b"12345"),)
    content = Content(
        {"update/a": torch.ones(2, 3), "update/b": torch.ones(1)}, {"sizes": {"nodes": 1}}, letters
    )
    told = Instruction("run", 1, 1, "train", Content({"model/w": torch.ones(4)}, {"evaluate": True}))
    declared = by_name(
        [
            Record("model", "a model"),
            Record("update", "an update", "noised"),
            Record("sizes", "counts", form="value"),
            Record("keys", "keys", form="letter"),
            Record("working", "that it works", form="value"),
        ]
    )
    replies = {"x": Reply("run", 1, 1, "train", "x", content)}
    rows = disclosures(1, "train", {"x": told}, replies, declared, {"z": [200, 205]})
    seen = {
        (one.sender, one.receiver, row.kind): (one.bytes, row.protected)
        for row in rows
        for one in row.crossings
    }
    assert seen == {
        ("server", "x", "model"): (16, "none"),
        ("x", "server", "update"): (28, "noised"),
        ("x", "server", "sizes"): (len('{"nodes": 1}'), "none"),
        ("x", "y", "keys"): (5, "encrypted"),
        # It was left out, and yet its signs have left it.
        ("z", "server", "working"): (405, "none"),
    }
    assert [row.count for row in rows if row.kind == "working"] == [2]
    assert all(row.reveals for row in rows)


def test_the_slowest_client_explains_an_exchange() -> None:
    seconds = {"train": 1.0}
    quick, slow = ({"train": 0.5, "score": 0.25}, {"train": 2.0})
    add_durations(seconds, 3.0, {"x": reply("x", {}, seconds=quick), "y": reply("y", {}, seconds=slow)})
    assert seconds == {"train": 3.0, "transport and waiting": 1.0}
    add_durations(seconds, 0.5, {})
    assert seconds["transport and waiting"] == 1.5
    # Clients measure on clocks of their own: nothing becomes negative.
    add_durations(seconds, 0.5, {"x": reply("x", {}, seconds={"train": 9.0})})
    assert seconds["transport and waiting"] == 1.5
