"""Where a run stands, seen from outside of the process that trains."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fedtag.common.errors import RunError
from fedtag.common.homes import home_folder
from fedtag.runs.process import lives
from fedtag.server.pages.wording import duration
from fedtag.server.state.monitor import BEAT_SECONDS
from fedtag.server.tracking.run_directory import PLACES, RunDirectory, is_run
from fedtag.server.tracking.status import STATUS, RunStatus, moment, read_status, safe

SILENT_SECONDS = 6 * BEAT_SECONDS
"""A status this old, of a process that cannot be looked up, may have lost its writer."""
COMPARED = "*/runs/*/*/*"
"""Where the runs of a comparison lie in a folder of comparisons."""


@dataclass(frozen=True)
class Sighting:
    """A run directory and what is known of its run.

    Args:
        folder: the run directory.
        status: what the run says of itself; made from its other files where it says nothing.
        going: whether it goes on, as far as can be seen.
        trouble: what is wrong and what helps, in a sentence; None if all is well.
    """

    folder: Path
    status: RunStatus
    going: bool
    trouble: str | None


def newest_run(place: Path | None) -> Path:
    """The run directory itself, or the run in a folder of runs that was written last.

    Args:
        place: by default runs/ here and under FEDTAG_HOME.

    Raises:
        RunError: there is no run.
    """
    if place is not None and is_run(place):
        return place
    places = [Path("runs"), home_folder() / "runs"] if place is None else [place]
    found = [
        path
        for folder in places
        for pattern in ("*", "*/*", COMPARED)
        for path in folder.glob(pattern)
        if path.is_dir() and is_run(path)
    ]
    if not found:
        names = " or ".join(str(folder.absolute()) for folder in places)
        raise RunError(
            f"there is no run in {names}: it has not begun, or its directory, the setting `out`, is another one"
        )
    return max(found, key=written)


def written(folder: Path) -> float:
    """When something in a run directory was written last."""
    names = ("config.toml", "metrics.jsonl", "summary.json", STATUS)
    return max(path.stat().st_mtime for name in names if (path := folder / name).exists())


def look(folder: Path) -> Sighting:
    """A run at this moment.

    Raises:
        RunError: the folder is no run directory, or a file in it is damaged.
    """
    directory = RunDirectory.open(folder)
    status = read_status(folder)
    if status is None:
        made = reconstructed(directory)
        trouble = (
            None
            if made.state == "finished"
            else f"{folder} has no {STATUS}: whether the run goes on is unknown"
        )
        return Sighting(folder, made, False, trouble)
    if status.state == "finished":
        return Sighting(folder, status, False, None)
    if status.state == "stopped":
        reason = (status.reason or "the run stopped").rstrip(".")
        return Sighting(folder, status, False, f"{reason}; go on with {remedy_for(directory)}")
    age = (datetime.now(UTC) - datetime.fromisoformat(status.updated)).total_seconds()
    if status.host != platform.node():
        lost = age > SILENT_SECONDS
        trouble = (
            f"process {status.pid} on {status.host} has written nothing for {duration(round(age))}: if it is gone, go "
            f"on with {remedy_for(directory)}"
        )
        return Sighting(folder, status, not lost, trouble if lost else None)
    if lives(status):
        return Sighting(folder, status, True, None)
    trouble = (
        f"the run did not stop in order: its process {status.pid} is gone, and was last heard of "
        f"{duration(max(0, round(age)))} ago. {safe(status.round)}: go on with {remedy_for(directory)}"
    )
    return Sighting(folder, status, False, trouble)


def remedy_for(directory: RunDirectory) -> str:
    """How a run is resumed, by whoever began it."""
    path = directory.path.absolute()
    if (directory.path / PLACES).is_file():
        return f"`fedtag simulate --resume {path}`, or `fedtag up --resume {path}`"
    return f"the same `flwr run` and --run-config 'out=\"{path}\" resume=true'"


def reconstructed(directory: RunDirectory) -> RunStatus:
    """What the other files of a run tell of it, which an earlier release or no process at all has written."""
    config, rows, summary = directory.read_config(), directory.read_rounds(), directory.read_summary()
    time = moment(datetime.fromtimestamp(written(directory.path), UTC))
    return RunStatus(
        run="",
        method=str(config.get("method", "")),
        state="stopped" if summary is None else "finished",
        round=max((row.round for row in rows), default=0),
        rounds=int(config.get("rounds", len(rows))),
        wanted=int(config.get("clients", 0)),
        host="",
        pid=0,
        started=time,
        updated=time,
        bytes_up=sum(row.bytes_up for row in rows) if summary is None else summary.bytes_up,
        bytes_down=sum(row.bytes_down for row in rows) if summary is None else summary.bytes_down,
        seconds_per_round=None if summary is None else summary.seconds_per_round,
        val_accuracy=next((row.val_accuracy for row in reversed(rows) if row.val_accuracy is not None), None),
    )
