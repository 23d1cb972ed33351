"""The runs below a folder, by what they are and what came of them; their rows are not read."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedtag.common.config import flatten
from fedtag.common.errors import FedtagError, RunError
from fedtag.common.wording.scoring import chosen_by, column
from fedtag.runs.places import places_told
from fedtag.runs.process import lives
from fedtag.server.tracking.parent import parent_name
from fedtag.server.tracking.rows import Summary
from fedtag.server.tracking.run_directory import CONTRACT, RunDirectory, is_run
from fedtag.server.tracking.status import RunStatus, moment, read_status

LOST, DAMAGED = "lost", "damaged"
NO_RESULT = ("run", "flower_run", "peak_rss_mb")
"""What a summary says of the run itself or the machine, in which any two runs differ."""


@dataclass(frozen=True)
class RunEntry:
    """One run directory.

    Args:
        run: its path below the folder that was asked for.
        method, data: of its settings; the name of a preset where one was chosen.
        clients: that it was for.
        rounds, planned: complete ones, and all.
        state: as in status.json; `lost` where its process is gone, `damaged` where a file cannot be read.
        metric: by which the released round is chosen.
        val, test: by that metric, of the released round, in [0, 1]; None before the end.
        date: UTC, in ISO 8601, when something was written last.
        parent: the run whose model or state it began with; empty where it began anew.
        trouble: why it is damaged, in a sentence.
    """

    run: str
    method: str = ""
    data: str = ""
    clients: int | None = None
    rounds: int | None = None
    planned: int | None = None
    state: str = DAMAGED
    metric: str = ""
    val: float | None = None
    test: float | None = None
    date: str = ""
    parent: str = ""
    trouble: str = ""


def run_entries(folder: Path) -> list[RunEntry]:
    """The runs in a folder and below it, the newest first; one that is damaged says so.

    Raises:
        RunError: it is no folder, or cannot be read.
    """
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder; name one that holds runs")
    with places_told(folder):
        found = [_entry(path, folder) for path in run_folders(folder)]
    return sorted(found, key=lambda one: (one.date, one.run), reverse=True)


def run_folders(folder: Path) -> Iterator[Path]:
    """Run directories in a folder and below it; what is hidden, linked or within a run is passed over."""
    for place, below, _ in os.walk(folder):
        if is_run(Path(place)):
            below.clear()
            yield Path(place)
        below[:] = sorted(name for name in below if not name.startswith("."))


def _entry(path: Path, folder: Path) -> RunEntry:
    name = path.name if path == folder else path.relative_to(folder).as_posix()
    written = max(file.stat().st_mtime for one in CONTRACT if (file := path / one).exists())
    date = moment(datetime.fromtimestamp(written, UTC))
    try:
        return _read(RunDirectory.open(path), name, date)
    except FedtagError as error:
        return RunEntry(name, date=date, trouble=str(error))


def _read(directory: RunDirectory, name: str, date: str) -> RunEntry:
    settings, summary, status = (
        directory.read_config(),
        directory.read_summary(),
        read_status(directory.path),
    )
    metric = chosen_by(settings)
    return RunEntry(
        name,
        method=str(settings.get("preset") or settings.get("method", "")),
        data=summary.data if summary else str(settings.get("data", {}).get("source", "")),
        clients=settings.get("clients"),
        rounds=summary.rounds if summary else status.round if status else None,
        planned=settings.get("rounds"),
        state=_state(summary, status),
        metric=metric,
        val=getattr(summary, f"val_{column(metric)}", None),
        test=getattr(summary, f"test_{column(metric)}", None),
        date=date,
        parent=parent_name(directory),
    )


def _state(summary: Summary | None, status: RunStatus | None) -> str:
    if summary is not None:
        return "finished"
    if status is None:
        return "stopped"
    gone = not status.ended and status.host == platform.node() and not lives(status)
    return LOST if gone else status.state


@dataclass(frozen=True)
class Difference:
    """What two runs do not have in common.

    Args:
        kind: `setting` or `result`.
        name: of a setting by dotted key, or of a number in summary.json.
        values: of both; None where one has none.
    """

    kind: str
    name: str
    values: tuple[Any, Any]


def differences(first: RunDirectory, second: RunDirectory) -> list[Difference]:
    """Settings and results that differ; of a run that has not finished there are settings alone.

    Raises:
        RunError: a file is damaged.
    """
    sides = {
        "setting": [flatten(one.read_config()) for one in (first, second)],
        "result": [_results(one.read_summary()) for one in (first, second)],
    }
    return [
        Difference(kind, name, (one.get(name), other.get(name)))
        for kind, (one, other) in sides.items()
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def _results(summary: Summary | None) -> dict[str, Any]:
    """What a summary holds of results under one name each; of each class the scores."""
    if summary is None:
        return {}
    found = {name: value for name, value in vars(summary).items() if name not in NO_RESULT}
    classes = {
        str(one["class"]): {name: value for name, value in one.items() if name != "class"}
        for one in found["test_classes"] or ()
    }
    nested = {**found, "test_classes": classes, "privacy": found["privacy"] or {}}
    return {name: value for name, value in flatten(nested).items() if not isinstance(value, list | tuple)}
