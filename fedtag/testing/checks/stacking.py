"""Clients that are trained at once come to what clients come to that are trained one by one."""

from __future__ import annotations

from typing import Any

from fedtag.common.errors import ConfigError
from fedtag.testing.subject import Subject, require
from fedtag.testing.trial import Trial

ROUNDING = 1e-4
"""What another order of sums may change in a parameter, a loss or a score after a few rounds."""
FIGURES = ("train_loss", "val_accuracy", "test_accuracy")


def clients_trained_at_once_come_to_the_same(subject: Subject) -> None:
    """Where its specifications say that they can be; without dropout, whose draws are others there."""
    settings: dict[str, Any] = {"model__dropout": 0.0, "rounds": subject.fewer}
    try:
        subject.configured(len(subject.graphs), engine="stacked", **settings)
    except ConfigError as error:
        subject.waive(f"does not go with it: {error}")
    one, other = subject.run(engine="stacked", **settings), subject.run(**settings)
    require(_near(one, other), subject, "comes to something else where clients are trained at once")


def _near(one: Trial, other: Trial) -> bool:
    pairs = [
        (mine, its)
        for row, same in zip(one.scores(*FIGURES), other.scores(*FIGURES), strict=True)
        for mine, its in zip(row, same, strict=True)
    ]
    figures = all(mine == its or abs(mine - its) <= ROUNDING for mine, its in pairs)
    return figures and all(
        bool(((value - other.best[name]).abs() <= ROUNDING).all()) for name, value in one.best.items()
    )
