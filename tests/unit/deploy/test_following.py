from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy.following import Follower
from server.tracking.rows import RoundRow
from server.tracking.run_directory import METRICS, RunDirectory


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def begin(self, rounds: int, done: int) -> None:
        self.events.append((f"begin {rounds}", done))

    def advance(self, row: RoundRow) -> None:
        self.events.append(("over", row.round))

    def scored(self, row: RoundRow) -> None:
        self.events.append(("scored", row.round))

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        raise AssertionError(text)


def row(number: int) -> RoundRow:
    return RoundRow(number, 1.0, 0.5, 0.5, 0.5, 1.0, {}, 1, 1, 2, 0)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_follower_tells_each_row_once(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.append_round(row(1))
    run.append_round(row(2))
    recorder = Recorder()
    with Follower(run.path, 5, recorder):
        assert recorder.events == [("begin 5", 2)]
        # A resumed run forgets the row whose checkpoint was lost, and writes it again.
        run.truncate_after(1)
        run.append_round(row(2))
        run.append_round(row(3))
        wait_for(lambda: ("scored", 3) in recorder.events)
        with (run.path / METRICS).open("a") as file:
            file.write('{"round": 4')
    assert recorder.events == [("begin 5", 2), ("over", 3), ("scored", 3)]


def test_rows_written_at_the_end_are_told(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    recorder = Recorder()
    with Follower(run.path, 1, recorder):
        run.append_round(row(1))
    assert recorder.events[-1] == ("scored", 1)
