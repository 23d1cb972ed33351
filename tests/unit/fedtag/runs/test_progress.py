from __future__ import annotations

import logging

import pytest

from fedtag.runs.progress import LogProgress, Pace
from fedtag.server.tracking.rows import RoundRow


def test_the_log_has_a_stage_every_five_seconds_at_most(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 100.0
    monkeypatch.setattr("fedtag.runs.progress.time.monotonic", lambda: passed)
    caplog.set_level(logging.INFO, "fedtag")
    progress = LogProgress()
    for text, seconds in (("a", 0.0), ("a", 6.0), ("b", 0.0), ("c", 1.0), ("c", 6.0)):
        passed += seconds
        progress.stage(text)
    assert [record.getMessage() for record in caplog.records] == ["a", "b", "c"]


def test_every_run_has_its_first_scores_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedtag")
    progress = LogProgress()
    for _ in range(2):
        progress.rounds.begin(9, 0)
        for number in (1, 2):
            progress.rounds.scored(RoundRow(number, 1.0, 0.5, 0.5, 0.5, 1.0, {}, 1, 1, 2, 0))
    shown = "round 1 of 9: loss 1.0000, validation accuracy 50.0%, test 50.0%"
    assert caplog.messages == ["9 rounds", shown] * 2


def test_pace_counts_from_the_first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 50.0
    monkeypatch.setattr("fedtag.runs.progress.time.monotonic", lambda: passed)
    pace, said = Pace(), []
    for what, seconds, done in (
        ("a", 0.0, 20),
        ("a", 4.0, 60),
        ("b", 0.0, 1),
        ("a", 6.0, 120),
        ("a", 1.0, 20),
    ):
        passed += seconds
        said.append(pace.said(what, done, 120))
    assert said == ["", "10 a second, 6 s left", "", "10 a second", ""]
