"""Trackers of a run: chosen by name, brought by anybody, and never the end of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fedtag.common.errors import ConfigError
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.sections import Section, TrackingConfig
from fedtag.server.tracking.trackers.following import chosen_trackers
from fedtag.server.tracking.trackers.spec import TRACKERS, TrackedRun, TrackerSpec
from tests.tiny import Tiny


@dataclass
class Remembering:
    """A tracker that keeps what it is told, and fails where it is to."""

    fails: str = ""
    runs: list[TrackedRun] = field(default_factory=list)
    logged: list[tuple[int, Mapping[str, float]]] = field(default_factory=list)
    closed: list[Mapping[str, Any] | None] = field(default_factory=list)

    def open(self, run: TrackedRun) -> Remembering:
        self.runs.append(run)
        self._fail("open")
        return self

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self.logged.append((step, scalars))
        self._fail("log")

    def close(self, summary: Mapping[str, Any] | None) -> None:
        self.closed.append(summary)
        self._fail("close")

    def _fail(self, here: str) -> None:
        if self.fails == here:
            raise OSError("the server https://name:secret@tracks is gone")


@pytest.fixture
def added() -> Iterator[Any]:
    """Takes trackers as objects, and forgets them after the test."""
    names = []

    def add(name: str, tracker: Remembering) -> Remembering:
        TRACKERS.add(TrackerSpec(name=name, title="A tracker.", interface=INTERFACE, opened=tracker.open))
        names.append(name)
        return tracker

    yield add
    for name in names:
        del TRACKERS._added[name]


def test_it_is_told_every_round_and_the_summary_and_nothing_of_single_clients(tiny: Tiny, added: Any) -> None:
    tracker = added("remembering", Remembering())
    tried = tiny({"tracking.trackers": "remembering", "rounds": 2})
    rows = tried.lines("metrics")
    assert [step for step, _ in tracker.logged] == [1, 2]
    for row, (_, scalars) in zip(rows, tracker.logged, strict=True):
        assert scalars["loss/train"] == row["train_loss"]
        assert scalars["accuracy/val"] == row["val_accuracy"]
        assert scalars["bytes/up"] == row["bytes_up"]
    (run,), (summary,) = tracker.runs, tracker.closed
    assert run.folder == tried.place / "run"
    assert run.settings["rounds"] == 2
    assert run.first_round is None
    assert summary["best_round"] == tried.summary.best_round
    assert not (tried.place / "run" / "tensorboard").exists()
    # The control: rows of clients, which trackers do not get, have these names.
    assert "site-0" in str(tried.lines("clients"))
    assert "site-0" not in str((tracker.logged, run.settings, summary))


@pytest.mark.parametrize("where", ["open", "log", "close"])
def test_one_that_fails_is_told_once_and_loses_no_run(where: str, tiny: Tiny, added: Any) -> None:
    failing, other = added("failing", Remembering(where)), added("other", Remembering())
    tried = tiny({"tracking.trackers": "failing,other", "rounds": 2})
    assert tried.summary is not None
    told = [text for text in tried.notes.texts if "tracker failing of this process failed" in text]
    assert len(told) == 1
    assert "OSError: the server https://tracks is gone" in told[0]
    assert [step for step, _ in other.logged] == [1, 2]
    assert len(failing.logged) == {"open": 0, "log": 1, "close": 2}[where]


def test_a_run_that_stops_closes_them_without_a_summary_and_a_resumed_one_says_where_it_goes_on(
    tiny: Tiny, added: Any
) -> None:
    tracker = added("remembering", Remembering())
    settings = {"tracking.trackers": "remembering", "rounds": 2, "exchange.retries": 0}
    names = [f"site-{k}" for k in range(3)]
    stopped = tiny(settings, online=lambda exchange: names if exchange < 2 else [], patient=False)
    assert stopped.error is not None
    assert tracker.closed == [None]
    # Another choice of trackers is no other run.
    resumed = tiny({**settings, "tracking.trackers": " remembering "}, place=stopped.place, patient=False)
    assert resumed.summary is not None
    assert [one.first_round for one in tracker.runs] == [None, 1]
    assert tracker.runs[0].run == tracker.runs[1].run
    assert [step for step, _ in tracker.logged] == [1, 2]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            "tensorbord",
            r"no tracker is called so \(did you mean tensorboard\?\); use one of mlflow, tensorboard",
        ),
        ("mlflow,mlflow", "mlflow stands twice, name it once"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(names: str, told: str, tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match=told):
        chosen_trackers(TrackingConfig(trackers=names))
    with pytest.raises(ConfigError, match=told):
        tiny({"tracking.trackers": names})


def test_one_that_lacks_a_module_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtag.server.tracking.trackers.following.find_spec", lambda module: None)
    with pytest.raises(
        ConfigError, match=r"mlflow needs mlflow, which is not installed: pip install 'fedtag"
    ):
        chosen_trackers(TrackingConfig(trackers="tensorboard,mlflow"))
    assert chosen_trackers(TrackingConfig(trackers="")) == ()


def test_a_tracker_has_no_settings(tmp_path: Path) -> None:
    spec = TrackerSpec(name="own", title="A tracker.", interface=INTERFACE, opened="m:T", settings=Section)
    with pytest.raises(ConfigError, match="has settings, which would go to every institution"):
        TRACKERS.add(spec)
