"""status.json is read back as it was written, whole at every moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from fedtag.common.errors import RunError
from fedtag.server.tracking.status import STATUS, ClientStatus, RunStatus, moment, read_status, write_status


def status() -> RunStatus:
    client = ClientStatus("18446744073709551615", 'nörd "1"', "failed", "train", None, 2, "no reply", None)
    return RunStatus(
        *("0af", "dance", "training", 2, 20, 3, "host", 77, "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        clients=(client, ClientStatus("5", None, "online")),
        seconds_per_round=1.5,
    )


def test_status_is_read_back(tmp_path: Path) -> None:
    write_status(tmp_path, status())
    assert read_status(tmp_path) == status()
    assert [path.name for path in tmp_path.iterdir()] == [STATUS]


def test_keys_of_a_later_release_are_ignored(tmp_path: Path) -> None:
    write_status(tmp_path, status())
    record = json.loads((tmp_path / STATUS).read_text())
    record["mood"] = record["clients"][0]["mood"] = "fine"
    (tmp_path / STATUS).write_text(json.dumps(record))
    assert read_status(tmp_path) == status()


def test_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None


@pytest.mark.parametrize("text", ["{}", '{"clients": [1]}', "[]", "{"])
def test_damaged_status(text: str, tmp_path: Path) -> None:
    (tmp_path / STATUS).write_text(text)
    with pytest.raises(RunError, match=r"status\.json is no"):
        read_status(tmp_path)


def test_times_are_utc() -> None:
    east = datetime(2026, 5, 1, 1, 30, 9, 999, tzinfo=timezone(timedelta(hours=2)))
    assert moment(east) == "2026-04-30T23:30:09Z"
    assert datetime.fromisoformat(moment(east)) == east.astimezone(UTC).replace(microsecond=0)


def test_ends() -> None:
    assert not status().ended
    assert RunStatus(**{**vars(status()), "state": "stopped"}).ended
