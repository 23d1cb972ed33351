"""What must not matter to a run: order, stops, processes, and nothing but the seed."""

from __future__ import annotations

from collections.abc import Mapping

from fedtag.testing.subject import ROUNDS, Subject, require, same_parameters
from fedtag.testing.trial import Trial, Watch

SCORES = ("val_accuracy", "test_accuracy", "test_ece")


def _alike(one: Trial, other: Trial) -> bool:
    same = one.scores(*SCORES) == other.scores(*SCORES)
    return same and same_parameters(one, other) and one.contributions(ROUNDS) == other.contributions(ROUNDS)


def the_same_seed_gives_the_same_bits(subject: Subject) -> None:
    """In any order of clients."""
    # What is the same with everything changed is the same with one thing changed.
    if not _alike(subject.again, subject.plain):
        other = subject.run(watch=Watch(reverse=True))
        require(_alike(other, subject.plain), subject, "comes to something else when it is run again")


def a_stopped_run_goes_on_to_the_same_bits(subject: Subject) -> None:
    """All that the next round needs is in the checkpoint, and in what sites keep."""
    if not _alike(subject.again, subject.plain):
        other = subject.run(stopped=True)
        require(_alike(other, subject.plain), subject, "comes to something else after a stop")


def each_message_may_find_another_process(subject: Subject) -> None:
    """As between machines: all that a client remembers is on its disk, and every message is bytes."""
    if not _alike(subject.again, subject.plain):
        other = subject.run(watch=Watch(anew=True))
        require(_alike(other, subject.plain), subject, "comes to something else in other processes")


def another_seed_gives_another_update(subject: Subject) -> None:
    """At every client; where models stay with the clients, another one that they keep."""

    def learned(trial: Trial) -> Mapping[str, object]:
        # The first model is drawn from the seed as well, and scores and losses follow from it.
        follows = ("initial", "scores", "training", "sizes")
        return trial.contributions(1, follows) if subject.releases else trial.kept()

    mine, theirs = learned(subject.plain), learned(subject.seeded)
    require(mine.keys() == theirs.keys(), subject, "has other clients with another seed")
    same = sorted(client for client in mine if mine[client] == theirs[client])
    require(not same, subject, f"learns the same with another seed, at {', '.join(same)}")
