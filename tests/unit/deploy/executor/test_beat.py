from __future__ import annotations

import json
import os
import time

import pytest

from fedtag.deploy.executor.beat import Beat, Pace, Sign


def test_the_same_is_told_once_a_second_and_news_at_once() -> None:
    reader, writer = os.pipe()
    beat = Beat(writer)
    for sign in (
        Sign("idle"),
        Sign("idle"),
        Sign("working", "run 1"),
        Sign("working", "run 1"),
        Sign("idle"),
    ):
        beat.tell(sign)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = [json.loads(line) for line in pipe]
    assert [(one["state"], one["detail"]) for one in told] == [
        ("idle", ""),
        ("working", "run 1"),
        ("idle", ""),
    ]


@pytest.mark.parametrize("gone", [True, False])
def test_who_does_not_listen_holds_nobody_up(gone: bool) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    if gone:
        os.close(reader)
    beat = Beat(writer)
    start = time.monotonic()
    for number in range(10_000):
        beat.tell(Sign("working", str(number)))
    assert time.monotonic() - start < 5
    Beat(None).tell(Sign("idle"))


def test_pauses_are_a_tenth_of_the_time_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pace = Pace(0.05, 3.0)
    found = []
    for idle in (0.0, 0.5, 2.0, 20.0, 29.5, 600.0):
        now = 100.0 + idle
        found.append(pace.pause)
    assert found == pytest.approx([0.05, 0.05, 0.2, 2.0, 2.95, 3.0])
    pace.worked()
    assert pace.pause == 0.05
