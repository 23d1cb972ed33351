from __future__ import annotations

import logging

import pytest

from fedtag.runs.progress import LogProgress


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
