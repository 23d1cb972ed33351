"""Labels of validation and test nodes: validation chooses, test is only read."""

from __future__ import annotations

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.models.parameters import fingerprint
from fedtag.testing.subject import ROUNDS, Subject, require, same_parameters


def labels_of_test_nodes_change_no_model(subject: Subject) -> None:
    """Neither training nor the choice of the round looks at them."""
    one, other = subject.plain, subject.tested
    same = one.contributions(ROUNDS) == other.contributions(ROUNDS) and same_parameters(one, other)
    require(same, subject, "comes to another model when labels of test nodes change")
    choice = ("round", "val_accuracy", "selection")
    require(
        one.scores(*choice) == other.scores(*choice)
        and one.run.summary["best_round"] == other.run.summary["best_round"]
        and fingerprint(one.best) == fingerprint(other.best),
        subject,
        "chooses another round when labels of test nodes change",
    )
    read = one.scores("test_accuracy") != other.scores("test_accuracy")
    require(read, subject, "scores test nodes without looking at their labels")


def labels_of_judging_nodes_reach_no_training(subject: Subject) -> None:
    """Validation nodes by which models are judged are for that alone.

    Where they decide weights, which is told as statistics, updates differ from the second round on.
    """
    config = subject.config
    if config.condenser.name != NONE and CONDENSERS.get(config.condenser.name).validates:
        subject.waive("condenses until validation says that it is enough")
    one, other = subject.plain, subject.validated
    rounds = 1 if config.aggregation.weights == "distribution-aware" else ROUNDS
    without = ("scores", "statistics")
    same = one.contributions(rounds, without) == other.contributions(rounds, without)
    require(same, subject, "trains otherwise when labels of judging validation nodes change")
    read = one.scores("val_accuracy") != other.scores("val_accuracy")
    require(read, subject, "scores validation nodes without looking at their labels")
