"""Secure aggregation: the same sums, of which no part is seen."""

from __future__ import annotations

from typing import Any

from fedtag.common.errors import ConfigError
from fedtag.testing.subject import Subject, require
from fedtag.testing.trial import Trial

ROUNDING = 1e-3
"""What fixed point and another order of sums may change in a parameter after two rounds."""


def _near(one: Trial, other: Trial) -> bool:
    first, second = one.best, other.best
    same = {name: value.shape for name, value in first.items()} == {
        name: value.shape for name, value in second.items()
    }
    return same and all(
        bool(((value - second[name]).abs() <= ROUNDING).all()) for name, value in first.items()
    )


def _pair(subject: Subject, **settings: Any) -> tuple[Trial, Trial]:
    """A run in clear, and one under masks with further settings."""
    shared: dict[str, Any] = {
        "rounds": subject.fewer,
        "aggregation__rule": "mean",
        "privacy__secure_aggregation": False,
        "privacy__hide_statistics": False,
    }
    masked = {**shared, "privacy__secure_aggregation": True, **settings}
    if not subject.config.spec.traits.sums:
        subject.waive("sums nothing")
    shared |= {key: value for key, value in settings.items() if not key.startswith("privacy")}
    try:
        subject.configured(len(subject.graphs), **masked)
    except ConfigError as error:
        subject.waive(f"does not go with it: {error}")
    return subject.run(**shared), subject.run(**masked)


def masks_change_nothing_but_rounding(subject: Subject) -> None:
    """Where its phases allow secure aggregation, the same model comes of masked sums, and no update is seen."""
    clear, masked = _pair(subject)
    require(_near(clear, masked), subject, "comes to another model under secure aggregation")
    kinds = {row.kind for row in masked.disclosures if not row.from_server}
    require("update" not in kinds, subject, "sends an update in clear under secure aggregation")


def hidden_statistics_stay_with_clients(subject: Subject) -> None:
    """Where it goes with hidden statistics, the same scores come of sums, and no client tells its own."""
    own = {"privacy__hide_statistics": True, "aggregation__weights": "uniform"}
    clear, hidden = _pair(subject, **own)
    columns = ("test_accuracy", "val_accuracy", "test_nodes")
    told = {row[name] for row in hidden.clients for name in columns}
    require(told == {None}, subject, "tells a client's own numbers where they are hidden")
    for one, other in zip(clear.scores("test_accuracy"), hidden.scores("test_accuracy"), strict=True):
        require(abs(one[0] - other[0]) < 1e-6, subject, "scores otherwise where statistics are hidden")
