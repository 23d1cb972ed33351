"""One cell of a comparison: whether its run is there already, and carrying out what is left of it."""

from __future__ import annotations

import json
import logging
import shutil
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import ConfigError, FedtagError, RunError, sentences
from fedtag.common.logs import LOGGER
from fedtag.comparison.fingerprint import fingerprint_of
from fedtag.comparison.matrix import Cell
from fedtag.comparison.progress import CellProgress, Note, Report
from fedtag.runs.own_code import check_own_code
from fedtag.runs.simulation import PreparedRun, prepare, reopen, run_in_process
from fedtag.server.tracking.durable_files import encoded, json_text, read_object, write_atomically
from fedtag.server.tracking.run_directory import PLACES, SITES, RunDirectory, is_run

COST = "cost.json"
SOURCE = "source.json"


class State(Enum):
    """What is in the folder of a cell."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    FINISHED = "finished"


def states(cells: Sequence[Cell]) -> dict[Cell, State]:
    """The state of every cell.

    Raises:
        RunError: a folder holds a run with other settings or of other data, or something that is no run.
    """
    found: dict[Cell, State] = {}
    problems = []
    fingerprints = {source: fingerprint_of(source) for source in {cell.config.data.source for cell in cells}}
    for cell in cells:
        try:
            found[cell] = state_of(cell, fingerprints[cell.config.data.source])
        except RunError as error:
            problems.append(str(error))
    if problems:
        others = len(problems) - 1
        more = f" ({others} other run{'s' if others > 1 else ''} of this comparison too)" if others else ""
        raise RunError(f"{problems[0]}{more}")
    return found


def state_of(cell: Cell, fingerprint: str | None = None) -> State:
    """What is in the folder of a cell.

    Args:
        cell: whose folder it is.
        fingerprint: of its data; taken where it is not given.

    Raises:
        RunError: it holds a run with other settings or of other data, a damaged one, or something that is no run.
    """
    path = cell.path
    if not path.exists() or is_abandoned(path):
        return State.ABSENT
    run = RunDirectory.open(path)
    try:
        there = RunConfig.from_flat(flatten(run.read_config()))
    except ConfigError as error:
        raise RunError(
            f"{path} was run by another version of fedtag ({error}); choose another out="
        ) from error
    difference = difference_of(there, cell.config)
    if difference:
        raise RunError(f"{path} was run with {difference}; choose another out=, or the same settings")
    made_with = read_fingerprint(path)
    if made_with is None and not run.finished and not run.read_rounds():
        return State.ABSENT
    if made_with is None:
        raise RunError(
            f"{path} was run by another version of fedtag, which did not keep what its data were; choose another "
            "out=, or delete that run"
        )
    if made_with != (fingerprint or fingerprint_of(cell.config.data.source)):
        raise RunError(
            f"the data {cell.data} changed since {path} was run; choose another out=, or delete that run"
        )
    check_own_code(path, cell.config, "choose another out=, or delete that run")
    run.check()
    return State.FINISHED if run.finished else State.UNFINISHED


def is_abandoned(path: Path) -> bool:
    """Whether a start was killed before it wrote settings: nothing there but the sites, if at all."""
    return path.is_dir() and not is_run(path) and {entry.name for entry in path.iterdir()} <= {SITES, PLACES}


def difference_of(there: RunConfig, wanted: RunConfig) -> str:
    """In words, the settings that decide results and differ; empty if none does."""
    old, new = there.decisive(), wanted.without_places().decisive()
    differing = [f"{key} = {old[key]!r}, not {new[key]!r}" for key in new if old[key] != new[key]]
    return " and ".join(differing)


def run_cell(cell: Cell, report: Report) -> None:
    """Start or continue the run of a cell; a finished one stays as it is.

    Processor time is added to the run's cost.json, whether the run ends or is stopped in order. The
    fingerprint of its data is in source.json from the start.
    """
    fingerprint = fingerprint_of(cell.config.data.source)
    state = state_of(cell, fingerprint)
    if state is State.FINISHED:
        return
    start = time.process_time()
    try:
        run = opened(cell, state)
        # Taken before the data were read: should they change meanwhile, the run counts as one of old data.
        text = json_text({"sha256": fingerprint}, SOURCE) + "\n"
        write_atomically(cell.path / SOURCE, encoded(text))
        run_in_process(run, CellProgress(report))
    finally:
        if is_run(cell.path):
            seconds = (read_cpu_seconds(cell.path) or 0.0) + time.process_time() - start
            text = json_text({"cpu_seconds": seconds}, COST) + "\n"
            write_atomically(cell.path / COST, encoded(text))


def opened(cell: Cell, state: State) -> PreparedRun:
    """The run of a cell, new or as far as it has come."""
    if state is State.UNFINISHED:
        return reopen(cell.path)
    if cell.path.exists():
        shutil.rmtree(cell.path)
    cell.path.parent.mkdir(parents=True, exist_ok=True)
    return prepare(cell.config)


def read_fingerprint(path: Path) -> str | None:
    """The fingerprint of the data of a run; None where it was not kept."""
    found = (read_object(path / SOURCE) or {}).get("sha256")
    return found if isinstance(found, str) else None


def read_cpu_seconds(path: Path) -> float | None:
    """Processor time of a run; None where it was not measured."""
    found = (read_object(path / COST) or {}).get("cpu_seconds")
    return float(found) if isinstance(found, int | float) else None


def attempt(cell: Cell, report: Report, debug: bool) -> str | None:
    """Run a cell; None, or in words why it failed."""
    try:
        with forwarded(report, debug):
            run_cell(cell, report)
    except Exception as error:
        if debug and not isinstance(error, FedtagError):
            report(Note(traceback.format_exc().rstrip()))
        return "; ".join(sentences(error, debug))
    return None


@contextmanager
def forwarded(report: Report, debug: bool) -> Iterator[None]:
    """The log of fedtag goes to the same place as the progress while this lasts; below warnings only in debugging."""
    handler = Forwarding(report)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG if debug else logging.WARNING)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


class Forwarding(logging.Handler):
    """A log whose lines are reported."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def emit(self, record: logging.LogRecord) -> None:
        self.report(Note(record.getMessage()))


def cell_text(cell: Cell) -> str:
    """A cell as JSON, for another process."""
    return json.dumps(
        {"row": cell.row, "data": cell.data, "seed": cell.seed, "config": cell.config.to_flat()}
    )


def cell_of(text: str) -> Cell:
    """The cell that `cell_text` wrote."""
    record = json.loads(text)
    return Cell(record["row"], record["data"], record["seed"], RunConfig.from_flat(record["config"]))
