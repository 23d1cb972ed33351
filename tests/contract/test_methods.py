"""What every method owes its users, whatever it computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.data.text_graph import TEST, VAL, TextGraph
from fedtag.common.models.parameters import fingerprint
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.phases import SHARES
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.state import ServerState

REQUIRED = (
    "train_loss",
    "val_accuracy",
    "test_accuracy",
    "test_macro_f1",
    "test_ece",
    "val_macro_f1",
    "seconds",
)

Finished = Any
Federate = Callable[..., Finished]
Method = dict[str, Any]


def test_there_is_one_complete_row_a_round(finished: Finished) -> None:
    assert [row["round"] for row in finished.rows] == [1, 2, 3]
    for row in finished.rows:
        assert all(math.isfinite(row[name]) for name in REQUIRED)
        assert row["bytes_up"] > 0
        assert row["bytes_down"] > 0
        assert not row["empty"]
        assert (row["clients_ok"], row["clients_failed"]) == (finished.config.clients, 0)
        condensed = row["effective_ratio"]
        # With fedgc the server condenses, and no client trains on fewer nodes than it has.
        told = finished.config.condenses and finished.config.method != "fedgc"
        told = told and not finished.config.privacy.hide_statistics
        assert 0 < condensed <= 1 if told else condensed is None


def test_every_client_has_a_row_a_round(finished: Finished) -> None:
    names = sorted({row["client"] for row in finished.clients})
    assert len(names) == finished.config.clients
    assert [(row["round"], row["client"]) for row in finished.clients] == [
        (number, name) for number in (1, 2, 3) for name in names
    ]
    assert all(row["failed"] is None for row in finished.clients)
    for number in (1, 2, 3):
        weights = [row["weight"] for row in finished.clients if row["round"] == number]
        if finished.config.method == "isolated":
            assert weights == [None] * len(weights)
        else:
            assert sum(weights) == pytest.approx(1)


def test_accuracies_are_pooled_over_nodes(finished: Finished) -> None:
    if finished.config.privacy.hide_statistics:
        pytest.skip(
            "no client tells its own accuracy; tests/integration/test_secure_runs.py compares the pooled one"
        )
    for row in finished.rows:
        clients = [one for one in finished.clients if one["round"] == row["round"]]
        for subset in ("val", "test"):
            count = sum(one[f"{subset}_nodes"] for one in clients)
            right = sum(one[f"{subset}_nodes"] * one[f"{subset}_accuracy"] for one in clients)
            assert row[f"{subset}_accuracy"] == pytest.approx(right / count)


def test_the_summary_repeats_the_rows(finished: Finished) -> None:
    summary, rows = finished.summary, finished.rows
    releasable = method_of(finished.config).releasable
    candidates = [row for row in rows if releasable(row["round"], ServerContext(finished.config))]
    if finished.config.chooses_round:
        best = max(candidates, key=lambda row: (row["selection"], -row["round"]))
    else:
        best = rows[-1]
        assert {row["selection"] for row in rows} == {None}
    assert summary.best_round == best["round"]
    for name in ("val_accuracy", "val_spread", "test_accuracy", "test_spread", "test_macro_f1", "test_ece"):
        assert getattr(summary, name) == best[name]
    assert summary.last_test_accuracy == rows[-1]["test_accuracy"]
    assert summary.rounds == 3
    assert summary.clients == finished.config.clients
    # The closing exchange belongs to no round.
    assert summary.bytes_up > sum(row["bytes_up"] for row in rows)
    assert summary.seconds == pytest.approx(sum(row["seconds"] for row in rows))


def test_the_released_model_is_that_of_the_best_round(finished: Finished) -> None:
    released = finished.path / "run" / "model.safetensors"
    assert released.exists() == (finished.config.method != "isolated")
    if finished.summary.best_round == 3:
        state, context = ServerState(finished.state, finished.values), ServerContext(finished.config)
        assert fingerprint(finished.best) == fingerprint(method_of(finished.config).released(state, context))


def test_only_declared_kinds_cross_the_network(finished: Finished) -> None:
    declared = declared_records(finished.config)
    disclosed = {(row["round"], row["from"], row["kind"]) for row in finished.disclosures}
    sealed = {
        (row["round"], row["from"], row["to"], row["kind"], row["protected"]) for row in finished.disclosures
    }
    for reply in finished.replies:
        kinds = {name.partition("/")[0] for name in reply.content.tensors} | reply.content.values.keys()
        assert kinds <= declared.keys()
        assert {(reply.round, reply.client, kind) for kind in kinds} <= disclosed
        assert {letter.kind for letter in reply.content.letters} <= declared.keys()
        for letter in reply.content.letters:
            assert (reply.round, reply.client, letter.recipient, letter.kind, "encrypted") in sealed
        shares = any(letter.kind == SHARES for letter in reply.content.letters)
        assert not shares or finished.config.privacy.secure_aggregation


def test_no_file_holds_a_number_that_is_not_finite(
    finished: Finished, numbers_in: Callable[[Path], list[float]]
) -> None:
    numbers = numbers_in(finished.path)
    assert len(numbers) > 50
    assert all(map(math.isfinite, numbers))
    assert all(bool(torch.isfinite(value).all()) for value in finished.state.values())


def test_the_same_seed_gives_the_same_bits_in_any_order_of_clients(
    finished: Finished, method: Method, federate: Federate
) -> None:
    again = federate(method, reverse=True)
    assert again.parameters() == finished.parameters()
    assert again.contributions(3) == finished.contributions(3)
    scores = [(row["val_accuracy"], row["test_accuracy"], row["test_ece"]) for row in finished.rows]
    assert scores == [(row["val_accuracy"], row["test_accuracy"], row["test_ece"]) for row in again.rows]


def test_another_seed_gives_other_parameters(finished: Finished, method: Method, federate: Federate) -> None:
    other = federate(method, seed=1, rounds=2)
    mine, theirs = finished.contributions(1), other.contributions(1)
    assert mine.keys() == theirs.keys()
    assert all(mine[key] != theirs[key] for key in mine)


def test_validation_and_test_labels_never_reach_training(
    finished: Finished, method: Method, federate: Federate, flipped: Callable[..., list[TextGraph]]
) -> None:
    config = finished.config
    aware = config.aggregation.weights == "distribution-aware" or config.method == "da_dfgas"
    # Validation decides when condensation ends; test labels still do not.
    aware = aware or config.condenser.name in ("gcond", "gcond-x", "doscond", "sfgc")
    # Weights that look at validation accuracies move the model of round 2, and an architecture is searched on
    # validation nodes; test labels still do nothing.
    other = federate(method, flipped(TEST) if aware else flipped(VAL, TEST))
    assert other.contributions(2) == finished.contributions(2)
    name = "test_accuracy" if aware else "val_accuracy"
    assert [row[name] for row in other.rows] != [row[name] for row in finished.rows]


def test_test_labels_do_not_choose_the_best_round(
    finished: Finished, method: Method, federate: Federate, flipped: Callable[..., list[TextGraph]]
) -> None:
    if len(method) > 1:
        pytest.skip("selection is common to all variants of a method")
    # All test nodes get one class: a model that says one class of all nodes would not notice that classes moved on.
    other = federate(
        method, [replace(graph, labels=np.where(graph.split == TEST, 0, graph.labels)) for graph in flipped()]
    )
    assert other.summary.best_round == finished.summary.best_round
    assert fingerprint(other.best) == fingerprint(finished.best)
    assert [row["val_accuracy"] for row in other.rows] == [row["val_accuracy"] for row in finished.rows]
    assert other.summary.test_accuracy != finished.summary.test_accuracy
