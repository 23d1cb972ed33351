"""Clients that lack something: training nodes, classes, edges, nodes to score, or peers."""

from __future__ import annotations

import math

from fedtag.client.data.splitting import untrainable
from fedtag.client.data.text_graph import TRAIN, VAL
from fedtag.common.errors import DataError
from fedtag.testing.graphs import odd_federation, tiny_graph, without
from fedtag.testing.subject import Subject, require
from fedtag.testing.trial import Trial, Watch, numbers


def _unfailed(trial: Trial, subject: Subject, which: str) -> None:
    failed = {row["client"]: row["failed"] for row in trial.clients if row["failed"]}
    told = "; ".join(f"{client}: {reason}" for client, reason in failed.items())
    require(not failed, subject, f"fails at clients that lack {which} ({told}): see sites/errors.log")
    require(
        all(row["clients_failed"] == 0 for row in trial.rows), subject, f"fails at clients that lack {which}"
    )


def clients_that_lack_something_take_part(subject: Subject) -> None:
    """Without training nodes, with one class, without edges, with nothing to score, with one node."""
    trial = subject.odd
    _unfailed(trial, subject, "something")
    present = all(row["clients_ok"] == len(odd_federation()) for row in trial.rows)
    require(present, subject, "leaves out clients that lack something")


def nothing_infinite_comes_of_lacking(subject: Subject) -> None:
    """Means over no nodes are left out, in what is written and in what is sent."""
    trial = subject.odd
    finite = all(map(math.isfinite, numbers(trial.path)))
    require(finite, subject, "writes a number that is not finite where clients lack something")
    tensors = [value for reply in trial.watch.replies for value in reply.content.tensors.values()]
    sent = all(bool(value.isfinite().all()) for value in tensors)
    require(sent, subject, "sends a number that is not finite where clients lack something")


def weights_follow_training_nodes(subject: Subject) -> None:
    """A client without training nodes weighs nothing, and the others' weights come to 1."""
    if not subject.releases:
        subject.waive("averages nothing")
    trial = subject.odd
    for row in trial.clients:
        idle = row["train_nodes"] == 0
        require(not idle or row["weight"] == 0, subject, "gives weight to a client without training nodes")
    for number in {row["round"] for row in trial.rows}:
        total = sum(row["weight"] for row in trial.clients if row["round"] == number)
        require(math.isclose(total, 1, abs_tol=1e-6), subject, f"has weights of {total} with odd clients")


def scores_are_empty_where_nothing_can_be_scored(subject: Subject) -> None:
    """And nowhere else; where statistics are hidden, no client tells any of its own."""
    trial = subject.odd
    for row in trial.clients:
        own = row["test_accuracy"], row["val_accuracy"], row["test_nodes"]
        if subject.config.privacy.hide_statistics:
            require(own == (None, None, None), subject, "tells a client's own scores where they are hidden")
            continue
        for part in ("test", "val"):
            empty = row[f"{part}_accuracy"] is None
            require(
                empty == (row[f"{part}_nodes"] == 0), subject, f"scores {part} nodes where there are none"
            )
    require(trial.run.summary["test_accuracy"] is not None, subject, "has no score in its summary")


def without_training_nodes_a_run_is_refused(subject: Subject) -> None:
    """Nobody has a label to learn: the run ends with the remedy, and releases nothing."""
    if subject.config.privacy.secure_aggregation:
        subject.waive("sums under masks, which need somebody who trains")
    held = [without(graph, TRAIN) for graph in subject.graphs]
    released = set(subject.folder.rglob("model.safetensors"))
    try:
        subject.run(watch=Watch(held=held), rounds=subject.fewer)
    except DataError as error:
        require("training node" in str(error), subject, f"ends without training nodes, and says: {error}")
    else:
        require(False, subject, "goes on where no client has a training node")
    require(
        set(subject.folder.rglob("model.safetensors")) == released, subject, "releases what nobody trained"
    )


def any_client_can_be_the_only_one(subject: Subject) -> None:
    """A federation of one client, whatever it lacks but nodes to train on."""
    if subject.config.privacy.secure_aggregation:
        subject.waive("sums under masks, which need several clients")
    for graph in odd_federation():
        if untrainable(graph.labels, graph.split):
            continue
        trial = subject.run([tiny_graph(graph.name)], Watch(held=[graph]), rounds=subject.fewest)
        require(trial.rows[0]["clients_failed"] == 0, subject, f"fails where {graph.name} is the only client")


def without_validation_nodes_the_last_round_is_released(subject: Subject) -> None:
    """Nothing can be chosen, and nothing is by test nodes."""
    trial = subject.run([without(graph, VAL) for graph in subject.graphs], rounds=subject.fewer)
    _unfailed(trial, subject, "validation nodes")
    summary, last = trial.run.summary, trial.rows[-1]
    require(summary["val_accuracy"] is None, subject, "has a score of validation nodes that are not there")
    require(summary["best_round"] == last["round"], subject, "chooses a round without validation nodes")
    require(summary["test_accuracy"] == last["test_accuracy"], subject, "reports another round than the last")
