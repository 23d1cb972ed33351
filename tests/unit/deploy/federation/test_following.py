from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedtag.deploy.federation.following import Follower, stage_of
from fedtag.runs.progress import Work
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import METRICS, RunDirectory
from fedtag.server.tracking.status import ClientStatus, RunStatus, write_status


class Recorder:
    """Progress of a run and of its rounds."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.notes: list[str] = []
        self.stages: list[str] = []

    @property
    def rounds(self) -> Recorder:
        return self

    def work(self, site: str) -> Work:
        raise AssertionError(site)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def begin(self, rounds: int, done: int) -> None:
        self.events.append((f"begin {rounds}", done))

    def advance(self, row: RoundRow) -> None:
        self.events.append(("over", row.round))

    def scored(self, row: RoundRow) -> None:
        self.events.append(("scored", row.round))

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.notes.append(text)


def row(number: int) -> RoundRow:
    return RoundRow(number, 1.0, 0.5, 0.5, 0.5, 1.0, {}, 1, 1, 2, 0)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_follower_reports_each_row_once(tmp_path: Path) -> None:
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


def test_rows_written_at_the_end_are_reported(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    recorder = Recorder()
    with Follower(run.path, 1, recorder):
        run.append_round(row(1))
    assert recorder.events[-1] == ("scored", 1)


def status(**changed: Any) -> RunStatus:
    begun = RunStatus(
        *(
            "0af",
            "fedavg",
            "waiting for clients",
            0,
            3,
            2,
            "host",
            1,
            "2026-05-01T12:00:00Z",
            "2026-05-01T12:00:00Z",
        ),
        clients=(ClientStatus("7", None, "online"), ClientStatus("8", None, "offline")),
    )
    return replace(begun, **changed)


ASKED = (
    ClientStatus("7", None, "asked"),
    ClientStatus("8", None, "asked"),
    ClientStatus("9", None, "answered"),
    ClientStatus("10", None, "online"),
)


@pytest.mark.parametrize(
    ("changed", "stage"),
    [
        ({}, "waiting for 2 clients, 1 online"),
        (
            {"state": "training", "current": 1, "phase": "train", "clients": ASKED},
            "round 1, train, which loads texts and models: 1 of 3 clients answered, waiting for node 8, north",
        ),
        (
            {
                "state": "training",
                "current": 2,
                "phase": "train",
                "clients": (ClientStatus("7", "south", "working"),),
            },
            "round 2, train: 0 of 1 clients answered, waiting for south",
        ),
        (
            {
                "state": "closing",
                "current": 4,
                "phase": "close",
                "clients": (ClientStatus("7", "south", "failed"),),
            },
            "closing exchange: 1 of 1 clients answered",
        ),
        ({"state": "training", "phase": None}, ""),
    ],
)
def test_a_stage_in_words(changed: dict[str, Any], stage: str) -> None:
    assert stage_of(status(**changed), {"7": "north"}) == stage


def test_a_stage_is_reported_when_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtag.deploy.federation.following.PATIENCE_SECONDS", 0.3)
    run = RunDirectory(tmp_path / "run")
    write_status(run.path, status(state="stopped", phase="old"))
    recorder = Recorder()
    with Follower(run.path, 3, recorder, names=lambda: {"7": "north"}):
        # What an earlier part of the run has left is nothing that goes on.
        time.sleep(0.6)
        assert recorder.stages == []
        write_status(run.path, status(state="training", current=2, phase="train", clients=ASKED[:1]))
        wait_for(lambda: bool(recorder.stages))
        write_status(run.path, status(state="training", current=2, phase=None, clients=ASKED[:1]))
        time.sleep(0.6)
    assert set(recorder.stages) == {"round 2, train: 0 of 1 clients answered, waiting for north"}


def test_a_node_that_ended_is_reported_once_by_its_site(tmp_path: Path) -> None:
    codes: dict[str, int] = {}
    recorder = Recorder()
    with Follower(RunDirectory(tmp_path / "run").path, 3, recorder, ended=lambda: codes):
        codes["north"] = -9
        wait_for(lambda: bool(recorder.notes))
        time.sleep(0.5)
    assert recorder.notes == ["the SuperNode of north ended with code -9: its log says why"]
