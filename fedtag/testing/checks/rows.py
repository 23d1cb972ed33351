"""What a run writes: rows of rounds and clients, a summary, a released model."""

from __future__ import annotations

import math

from fedtag.common.condensers.spec import NONE
from fedtag.common.models.parameters import fingerprint
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.state import ServerState
from fedtag.testing.subject import ROUNDS, Subject, require
from fedtag.testing.trial import numbers

FINITE = (
    "train_loss",
    "val_accuracy",
    "test_accuracy",
    "test_macro_f1",
    "test_ece",
    "val_macro_f1",
    "seconds",
)
REPEATED = ("val_accuracy", "val_spread", "test_accuracy", "test_spread", "test_macro_f1", "test_ece")
NEAR = 1e-6
ALL = list(range(1, ROUNDS + 1))


def every_round_has_a_complete_row(subject: Subject) -> None:
    """Each round is scored, its numbers are finite, all clients take part, something is sent."""
    trial, config = subject.plain, subject.config
    require([row["round"] for row in trial.rows] == ALL, subject, "leaves out a round")
    # What the server condenses makes no client train on fewer nodes.
    at_clients = config.condenser.name != NONE or config.spec.traits.condensed == "own"
    told = at_clients and config.spec.traits.releases != "graph" and not config.privacy.hide_statistics
    for row in trial.rows:
        number = row["round"]
        missing = [name for name in FINITE if row[name] is None or not math.isfinite(row[name])]
        require(not missing, subject, f"has no finite {', '.join(missing)} in round {number}")
        require(row["bytes_up"] > 0 < row["bytes_down"], subject, f"sends nothing in round {number}")
        require(not row["empty"], subject, f"combines nothing in round {number}")
        counts = row["clients_ok"], row["clients_failed"]
        require(counts == (config.clients, 0), subject, "fails at a client: see sites/errors.log")
        ratio = row["effective_ratio"]
        right = 0 < (ratio or 0) <= 1 if told else ratio is None
        require(right, subject, f"tells a share of condensed nodes of {ratio} in round {number}")


def every_client_has_a_row_a_round(subject: Subject) -> None:
    """Rows come in order, none says that its client failed, and weights come to 1."""
    trial = subject.plain
    names = sorted({row["client"] for row in trial.clients})
    require(len(names) == subject.config.clients, subject, f"has rows of the clients {names} alone")
    found = [(row["round"], row["client"]) for row in trial.clients]
    expected = [(number, name) for number in ALL for name in names]
    require(found == expected, subject, "has no row a client and round, in this order")
    require(all(row["failed"] is None for row in trial.clients), subject, "fails at a client")
    for number in ALL:
        weights = [row["weight"] for row in trial.clients if row["round"] == number]
        if subject.releases:
            require(math.isclose(sum(weights), 1, abs_tol=NEAR), subject, f"has weights of {sum(weights)}")
        else:
            require(set(weights) == {None}, subject, "has weights where nothing comes together")


def accuracies_are_pooled_over_nodes(subject: Subject) -> None:
    """The accuracy of a round is that over all nodes of all clients."""
    if subject.config.privacy.hide_statistics:
        subject.waive("hides what each client's accuracy is")
    for row in subject.plain.rows:
        clients = [one for one in subject.plain.clients if one["round"] == row["round"]]
        for part in ("val", "test"):
            count = sum(one[f"{part}_nodes"] for one in clients)
            right = sum(one[f"{part}_nodes"] * one[f"{part}_accuracy"] for one in clients)
            require(
                math.isclose(row[f"{part}_accuracy"], right / count, abs_tol=NEAR),
                subject,
                f"has another {part} accuracy than all of its clients' nodes together",
            )


def the_summary_repeats_the_rows(subject: Subject) -> None:
    """It has the scores of the round that validation chose among those that may be released."""
    trial, rows = subject.plain, subject.plain.rows
    summary, config = trial.run.summary, subject.config
    releasable, context = method_of(config).releasable, ServerContext(config)
    if config.chooses_round:
        candidates = [row for row in rows if releasable(row["round"], context)]
        best = max(candidates, key=lambda row: (row["selection"], -row["round"]))
    else:
        best = rows[-1]
        require(
            {row["selection"] for row in rows} == {None}, subject, "chooses by validation where it may not"
        )
    require(summary["best_round"] == best["round"], subject, "releases another round than validation chose")
    for name in REPEATED:
        require(summary[name] == best[name], subject, f"has another {name} in its summary than in its row")
    last = rows[-1]["test_accuracy"]
    require(summary["last_test_accuracy"] == last, subject, "has another last accuracy in its summary")
    counts = summary["rounds"], summary["clients"]
    require(counts == (ROUNDS, config.clients), subject, f"has {counts} rounds and clients in its summary")
    # The closing exchange belongs to no round.
    sent = sum(row["bytes_up"] for row in rows)
    require(summary["bytes_up"] > sent, subject, "has no closing exchange")
    seconds = sum(row["seconds"] for row in rows)
    require(
        math.isclose(summary["seconds"], seconds, abs_tol=1e-3), subject, "has other seconds in its summary"
    )


def the_released_model_is_that_of_the_best_round(subject: Subject) -> None:
    """There is one unless models stay with the clients, and it is what the method says it releases."""
    trial = subject.plain
    exists = (trial.path / "model.safetensors").exists()
    require(
        exists == subject.releases, subject, f"says that it releases {subject.config.spec.traits.releases}"
    )
    if trial.run.summary["best_round"] == ROUNDS:
        state = ServerState(trial.state, trial.rounds.run_state.state.values)  # type: ignore[union-attr]
        released = method_of(subject.config).released(state, ServerContext(subject.config))
        same = fingerprint(trial.best) == fingerprint(released)
        require(same, subject, "releases something else than it says of its last state")


def no_number_is_infinite(subject: Subject) -> None:
    """In no file, and in nothing that the server keeps."""
    trial = subject.plain
    found = list(numbers(trial.path))
    require(len(found) > 50, subject, "writes nothing")
    require(all(map(math.isfinite, found)), subject, "writes a number that is not finite")
    kept = all(bool(value.isfinite().all()) for value in trial.state.values())
    require(kept, subject, "keeps a number that is not finite")
