"""What happened in a run, in a few lines of plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.wording.counts import plural
from fedtag.common.wording.engine import engine_words
from fedtag.common.wording.scoring import METRICS, column
from fedtag.server.pages.wording import count, duration, percent, size, spans

if TYPE_CHECKING:
    from fedtag.server.report.run_view import RunView

NEAR = 0.01
"""How near to its best a run has nearly arrived: one percentage point."""
NAMES_SHOWN = 3


@dataclass(frozen=True)
class Line:
    """One line: what it is about, and a sentence or two."""

    about: str
    said: str


@dataclass(frozen=True)
class Reference:
    """Another run on the same data, division and seed.

    Args:
        name: what comparisons call its row.
        test: its score on test nodes by the metric of the run beside it; None without any.
        rounds: how many it has.
    """

    name: str
    test: float | None
    rounds: int


def account(run: RunView, references: Sequence[Reference] = ()) -> tuple[Line, ...]:
    """The lines of a run, finished or not.

    Args:
        run: what its directory holds.
        references: runs beside it that show what its score is worth.
    """
    lines = [
        Line("Who", _who(run)),
        Line("On how much", _on_how_much(run)),
        Line("Round", _round(run)),
        Line("Score", _score(run)),
        Line("Course", _course(run)),
        Line("Beside others", _beside(run, references)),
        Line("What was lost", _lost(run)),
        Line("Who was left out", _left_out(run)),
        Line("Privacy", _privacy(run)),
        Line("What it took", _took(run)),
    ]
    return tuple(line for line in lines if line.said)


def _who(run: RunView) -> str:
    clients, rounds = plural(run.client_count, "client"), plural(run.round_count, "round")
    try:
        what = f"{run.method} ({METHODS.get(run.method).title.rstrip('.')})"
    except ConfigError:
        what = run.method
    state = "ran for" if run.finished else "has run so far for"
    return f"{what} {state} {rounds} with {clients} on {run.data}, seed {run.seed}."


def _on_how_much(run: RunView) -> str:
    rows = [line.row for line in run.every_client if line.row and line.row.nodes is not None]
    if not rows:
        return "No client has said how many nodes it has."
    train, nodes = [row.train_nodes or 0 for row in rows], [row.nodes or 0 for row in rows]
    spread = f", from {count(min(train))} to {count(max(train))} a client" if len(rows) > 1 else ""
    scored = [
        f"{plural(found, nodes_of)} to {purpose}"
        for nodes_of, purpose, found in (
            ("validation node", "choose the round", sum(row.val_nodes or 0 for row in rows)),
            ("test node", "test it", sum(row.test_nodes or 0 for row in rows)),
        )
        if found
    ]
    return (
        f"{plural(sum(train), 'training node')} of {plural(sum(nodes), 'node')}{spread}"
        f"{'; ' + ', '.join(scored) if scored else ''}."
    )


def _round(run: RunView) -> str:
    if run.best_round is None:
        return "No round has been recorded yet."
    if not run.chosen:
        return f"Round {run.best_round} is the last, and what is released: no validation score chose one."
    return f"Round {run.best_round} was chosen by {METRICS[run.metric]} on validation nodes, never by test nodes."


def _score(run: RunView) -> str:
    if run.test_accuracy is None:
        return "No test node was scored." if run.rounds else ""
    others = [f"macro-F1 {percent(run.test_macro_f1)}"] if run.test_macro_f1 is not None else []
    if run.test_spread is not None:
        others.append(f"clients differ by ± {100 * run.test_spread:.1f} points")
    more = f" ({', '.join(others)})" if others else ""
    return f"{percent(run.test_accuracy)} of the test nodes are classified correctly at that round{more}."


def _course(run: RunView) -> str:
    field = f"val_{column(run.metric)}"
    scored = [(row.round, getattr(row, field)) for row in run.rounds if getattr(row, field) is not None]
    if len(scored) < 2:
        return ""
    best = max(value for _, value in scored)
    near = next(number for number, value in scored if value >= best - NEAR)
    (first, start), (last, end) = scored[0], scored[-1]
    return (
        f"Validation {METRICS[run.metric]} went from {percent(start)} in round {first} to {percent(end)} in round "
        f"{last}; round {near} was the first within one point of its best, {percent(best)}."
    )


def _beside(run: RunView, references: Sequence[Reference]) -> str:
    own = run.test_score
    said = [
        f"{one.name} {percent(one.test)} ({difference(own, one.test)})"
        for one in references
        if one.test is not None and own is not None
    ]
    sentence = (
        f"Test {METRICS[run.metric]} of the references on the same data: {', '.join(said)}." if said else ""
    )
    if run.local_test_accuracy is not None and run.test_accuracy is not None:
        sentence += (
            f" The models as clients had trained them in that round, before they were combined: "
            f"{percent(run.local_test_accuracy)} of test nodes."
        )
    return sentence.strip()


def _lost(run: RunView) -> str:
    failed = sum(line.failures for line in run.every_client)
    asked = failed + sum(line.answered for line in run.every_client)
    if not asked:
        return ""
    if not failed and not run.empty_rounds:
        return "Nothing: every client that was asked answered."
    sentence = f"{count(failed)} of {plural(asked, 'answer')} did not come or were refused."
    if run.empty_rounds:
        rounds = "round" if len(run.empty_rounds) == 1 else "rounds"
        sentence += f" No client contributed in {rounds} {spans(run.empty_rounds)}."
    return sentence


def _left_out(run: RunView) -> str:
    absent = sorted(
        ((line.failures, line.client) for line in run.every_client if line.failures),
        key=lambda one: (-one[0], one[1]),
    )
    parts = []
    if absent:
        parts.append(f"{named([f'{client} ({times}×)' for times, client in absent])} for failures")
    if without := run.aggregation.without_training:
        parts.append(f"{named(without)} without a training node, and so without weight")
    return f"{'; '.join(parts)}." if parts else ("Nobody." if run.every_client else "")


def _privacy(run: RunView) -> str:
    view = run.aggregation
    return " ".join(f"{sentence}." for sentence in (*view.privacy[:2], *view.guarantee[:1]))


def _took(run: RunView) -> str:
    if not run.rounds:
        return ""
    sent = f"{size(run.bytes_up)} from the clients and {size(run.bytes_down)} to them"
    at_once = engine_words(run.summary.engine) if run.summary else ""
    took = f"{sent}; {duration(run.seconds)}, {duration(run.seconds_per_round)} a round (median)."
    return f"{took} {at_once}." if at_once else took


def named(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


def difference(own: float, other: float) -> str:
    """By how many percentage points a score is above another."""
    points = 100 * (own - other)
    return (
        "the same"
        if abs(points) < 0.005
        else f"this run {abs(points):.2f} points {'above' if points > 0 else 'below'}"
    )
