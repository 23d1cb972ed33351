"""What status.json and the metrics say while a run goes on, event by event."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fedtag.common import logs
from fedtag.common.config import RunConfig
from fedtag.common.errors import QuorumError
from fedtag.common.logs import PrivateRecord
from fedtag.server.state.monitor import BEAT_SECONDS, MOST_STRANGERS, Monitor
from fedtag.server.state.round import Exchanged
from fedtag.server.state.troubles import left_out, reason_of
from fedtag.server.tracking.meters import Meters
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.status import ClientStatus, RunStatus, read_status

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
CONFIG = RunConfig.from_flat({"method": "fedavg", "rounds": 10, "clients": 3})


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class Notes:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def begin(self, rounds: int, done: int) -> None: ...

    def advance(self, row: RoundRow) -> None: ...

    def scored(self, row: RoundRow) -> None: ...

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None:
        self.texts.append(text)


class Watched:
    """A monitor with its clock, its folder and its figures."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.notes, self.meters = folder, Clock(), Notes(), Meters()
        self.monitor = Monitor(folder, CONFIG, self.notes, self.meters, self.clock)

    def status(self) -> RunStatus:
        found = read_status(self.folder)
        assert found is not None
        return found

    def client(self, node: int) -> ClientStatus:
        return next(client for client in self.status().clients if client.node == str(node))

    def sample(self, name: str, **labels: str) -> float | None:
        return self.meters.registry.get_sample_value(name, labels)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def row(number: int, seconds: float, accuracy: float | None = None) -> RoundRow:
    return RoundRow(number, 1.0, accuracy, None, None, seconds, {}, 100, 50, 2, 1)


def exchange(up: int, down: int, seconds: float = 1.0) -> Exchanged:
    return Exchanged({}, {}, up, down, seconds)


def test_an_exchange_from_begin_to_end(watched: Watched) -> None:
    monitor = watched.monitor
    monitor.begin("0af", [])
    status = watched.status()
    assert (status.state, status.round, status.rounds, status.wanted) == ("waiting for clients", 0, 10, 3)
    assert (status.pid, status.started, status.clients) == (os.getpid(), "2026-05-01T12:00:00Z", ())
    monitor.seen([7, 5])
    monitor.asked(1, "train", [5, 7], 60.0)
    status = watched.status()
    assert (status.state, status.current, status.phase) == ("training", 1, "train")
    assert (status.since, status.deadline) == ("2026-05-01T12:00:00Z", "2026-05-01T12:01:00Z")
    assert [(client.node, client.name, client.state) for client in status.clients] == [
        ("5", None, "asked"),
        ("7", None, "asked"),
    ]
    monitor.sent(500)
    watched.clock.advance(20)
    time.sleep(0.21)
    monitor.replied(5, 1000)
    status = watched.status()
    assert (status.bytes_up, status.bytes_down, status.updated) == (1000, 500, "2026-05-01T12:00:20Z")
    assert (watched.client(5).state, watched.client(5).last_contact) == ("answered", "2026-05-01T12:00:20Z")
    assert watched.client(7).state == "asked"
    assert watched.sample("fedtag_clients", state="asked") == 1
    watched.clock.advance(40)
    monitor.exchanged(1, "train", exchange(1000, 500), {7: "no reply within 60 s"}, {5: "north"})
    status = watched.status()
    assert (status.phase, status.since, status.deadline) == (None, None, None)
    assert [client.name for client in status.clients] == ["north", None]
    assert watched.client(7) == ClientStatus(
        "7",
        None,
        "failed",
        "train",
        "2026-05-01T12:00:00Z",
        1,
        "no reply within 60 s",
        "2026-05-01T12:01:00Z",
    )
    assert watched.sample("fedtag_failures_total", client="unnamed") == 1
    assert watched.sample("fedtag_bytes_total", direction="up") == 1000
    assert watched.sample("fedtag_exchange_seconds_count", phase="train") == 1
    # Who is not asked the next time is neither awaited nor in trouble.
    monitor.asked(1, "train", [7], 60.0)
    assert [client.state for client in watched.status().clients] == ["online", "asked"]


def test_a_client_that_works_says_since_when_and_moves_the_deadline(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtag.server.state.monitor.REPLY_SECONDS", 0.0)
    monitor = watched.monitor
    monitor.begin("0af", [])
    monitor.asked(1, "train", [5, 7], 60.0)
    watched.clock.advance(30)
    monitor.works(5, 400, 20.0, 35, 70.0)
    monitor.works(7, 400, None, None, 70.0)
    status = watched.status()
    assert (status.bytes_up, status.deadline) == (800, "2026-05-01T12:01:40Z")
    busy, queued = watched.client(5), watched.client(7)
    assert (busy.state, busy.working_since, busy.percent) == ("working", "2026-05-01T12:00:10Z", 35)
    assert (queued.state, queued.working_since, queued.last_contact) == (
        "asked",
        None,
        "2026-05-01T12:00:30Z",
    )
    assert watched.sample("fedtag_clients", state="working") == 1
    monitor.replied(5, 10)
    monitor.exchanged(1, "train", exchange(0, 0), {7: "no reply within 60 s"}, {})
    for node, state in ((5, "answered"), (7, "failed")):
        known = watched.client(node)
        assert (known.state, known.working_since, known.percent) == (state, None, None)


def test_the_end_is_expected_from_the_median(watched: Watched) -> None:
    monitor = watched.monitor
    monitor.begin("0af", [row(1, 100.0, 0.5), row(2, 4.0)])
    status = watched.status()
    assert (status.round, status.bytes_up, status.bytes_down, status.val_accuracy) == (2, 200, 100, 0.5)
    assert status.seconds_per_round == 52
    assert status.expected_end == "2026-05-01T12:06:56Z"
    watched.clock.advance(6)
    monitor.round_over(row(3, 6.0))
    status = watched.status()
    assert (status.round, status.seconds_per_round) == (3, 6.0)
    assert status.expected_end == "2026-05-01T12:00:48Z"
    # Half a round later the end is as near as before, and never in the past.
    watched.clock.advance(3)
    monitor.asked(4, "train", [], 9.0)
    assert watched.status().expected_end == "2026-05-01T12:00:48Z"
    watched.clock.advance(1000)
    monitor.asked(4, "train", [], 9.0)
    assert watched.status().expected_end == watched.status().updated
    monitor.scored(row(3, 6.0, 0.625))
    monitor.asked(11, "close", [], 9.0)
    assert (watched.status().state, watched.status().val_accuracy) == ("closing", 0.625)
    assert watched.sample("fedtag_round") == 3
    assert watched.sample("fedtag_rounds_total") == 1
    assert watched.sample("fedtag_validation_accuracy") == 0.625


def test_a_site_that_comes_back_under_another_number_stays_one_client(watched: Watched) -> None:
    monitor = watched.monitor
    monitor.begin("0af", [])
    monitor.seen([5])
    monitor.asked(1, "train", [5], 60.0)
    monitor.exchanged(1, "train", exchange(0, 0), {5: "error 5: it is gone"}, {5: "north"})
    monitor.seen([])
    monitor.asked(1, "train", [], 1.0)
    assert watched.client(5).state == "offline"
    monitor.seen([9])
    monitor.asked(2, "train", [9], 60.0)
    assert [client.node for client in watched.status().clients] == ["5", "9"]
    monitor.exchanged(2, "train", exchange(0, 0), {}, {9: "north"})
    (client,) = watched.status().clients
    assert (client.node, client.name, client.failures, client.last_failure) == (
        "9",
        "north",
        1,
        "error 5: it is gone",
    )
    assert watched.sample("fedtag_failures_total", client="north") == 1


def test_nodes_that_never_said_who_they_are_do_not_pile_up(watched: Watched) -> None:
    watched.monitor.begin("0af", [])
    for node in range(100):
        watched.monitor.seen([node])
    watched.monitor.asked(1, "train", [99], 1.0)
    assert {int(client.node) for client in watched.status().clients} == set(range(99 - MOST_STRANGERS, 100))


def test_silence_is_broken_every_ten_seconds_at_most(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 100.0
    monkeypatch.setattr("fedtag.server.state.monitor.time.monotonic", lambda: passed)
    watched.monitor.begin("0af", [])
    watched.clock.advance(5)
    passed += BEAT_SECONDS - 0.1
    watched.monitor.beat()
    assert watched.status().updated == "2026-05-01T12:00:00Z"
    passed += 0.2
    watched.monitor.beat()
    assert watched.status().updated == "2026-05-01T12:00:05Z"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (None, None),
        (QuorumError("1 client answered"), "1 client answered"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (ZeroDivisionError("by zero"), "unexpected ZeroDivisionError: by zero"),
        (KeyboardInterrupt(), "it was interrupted"),
    ],
)
def test_the_last_word(error: BaseException | None, reason: str | None, watched: Watched) -> None:
    with contextlib.suppress(BaseException), watched.monitor:
        watched.monitor.begin("0af", [row(1, 5.0)])
        watched.monitor.asked(2, "train", [5], 60.0)
        if error is not None:
            raise error
    status = watched.status()
    assert (status.state, status.reason) == ("finished" if error is None else "stopped", reason)
    assert (status.current, status.phase, status.deadline, status.expected_end) == (None, None, None, None)
    assert status.round == 1


def test_a_run_that_never_began_leaves_the_earlier_word(watched: Watched) -> None:
    with pytest.raises(QuorumError), watched.monitor:
        raise QuorumError("x")
    assert list(watched.folder.iterdir()) == []


def test_a_status_that_cannot_be_written_holds_nothing_up(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, status: RunStatus) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedtag.server.state.monitor.write_status", full)
    with watched.monitor as monitor:
        monitor.begin("0af", [])
        monitor.asked(1, "train", [5], 60.0)
    assert watched.notes.texts == [
        "the status of the run cannot be written: [Errno 28] No space left on device"
    ]


@pytest.mark.parametrize(
    ("client", "reason", "told"),
    [
        (
            "north",
            "error 2: DataError; the site's own log says more",
            {"client": "north", "code": 2, "error": "DataError"}
            | {"meaning": "A data folder breaks the contract."},
        ),
        (
            "node 12",
            "error 2: north: RunError: No space left on device; the site's own log says more",
            {"node": "12", "code": 2, "error": "RunError"}
            | {
                "meaning": "A run directory or its checkpoint is missing, unreadable, or belongs to other settings."
            },
        ),
        ("node 12", "error 5: the patient has gout", {"node": "12", "code": 5}),
        ("north", "no reply within 60 s", {"client": "north"}),
        ("somebody else", "the patient has gout", {}),
    ],
)
def test_the_log_says_who_is_left_out_by_codes(client: str, reason: str, told: dict[str, object]) -> None:
    made = PrivateRecord("fedtag", logging.WARNING, "x", 1, f"{client}: {reason}", (), None)
    for name, value in left_out(3, client, reason, {"north"}).items():
        setattr(made, name, value)
    found = json.loads(made.getMessage())
    common = {name: found.pop(name) for name in ("time", "level", "logger", "event", "round")}
    assert (common["event"], common["round"], found) == ("client left out", 3, told)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(record.getMessage()))

    factory, handler = logging.getLogRecordFactory(), Keeping()
    logging.setLogRecordFactory(PrivateRecord)
    monkeypatch.setattr(logs.EVENTS, "level", logging.DEBUG)
    logs.EVENTS.manager._clear_cache()  # type: ignore[attr-defined]
    logs.EVENTS.addHandler(handler)
    yield found
    logs.EVENTS.removeHandler(handler)
    logging.setLogRecordFactory(factory)
    logs.EVENTS.manager._clear_cache()  # type: ignore[attr-defined]


def test_events_for_the_log(watched: Watched, events: list[dict[str, Any]]) -> None:
    with contextlib.suppress(QuorumError), watched.monitor as monitor:
        monitor.begin("0af", [])
        monitor.asked(1, "train", [5], 60.0)
        monitor.exchanged(1, "train", exchange(10, 5, 2.5), {}, {5: "north"})
        raise QuorumError("the patient has gout")
    for event in events:
        del event["time"]
    assert events == [
        {"level": "INFO", "logger": "fedtag.events", "event": "exchange"}
        | {"round": 1, "phase": "train", "clients": 0, "seconds": 2.5, "bytes": 15},
        {"level": "ERROR", "logger": "fedtag.events", "event": "run stopped"}
        | {"run": "0af", "round": 0, "error": "QuorumError", "meaning": events[1]["meaning"]},
    ]
    assert events[1]["meaning"] == "Too few clients answered, even after the retries."


def test_long_reasons_are_cut() -> None:
    assert len(reason_of(QuorumError("x" * 10**5))) == 2000
