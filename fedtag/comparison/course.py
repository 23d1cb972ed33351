"""A comparison from its study to its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedtag.client.data.pydocs import is_pydocs
from fedtag.client.data.sources import PUBLIC, load_source
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import ConfigError, DataError
from fedtag.comparison.execution import State, states
from fedtag.comparison.matrix import matrix_of
from fedtag.comparison.outcome import check_home, comparison_of, write_outcome, write_study
from fedtag.comparison.progress import MatrixDisplay
from fedtag.comparison.reports import report
from fedtag.comparison.study import Study
from fedtag.comparison.workers import Workers, run_here
from fedtag.runs.places import places_told
from fedtag.runs.simulation import check_device
from fedtag.server.comparison.results import Comparison
from fedtag.server.tracking.durable_files import exclusively
from fedtag.server.tracking.run_directory import RunDirectory, is_run


@dataclass(frozen=True)
class Compared:
    """A comparison as far as it has come.

    Args:
        comparison: the results.
        home: the folder of all runs and tables.
        failures: why runs failed, by the names of their cells.
    """

    comparison: Comparison
    home: Path
    failures: Mapping[str, str]


def compare(
    study: Study,
    home: Path,
    jobs: int,
    display: MatrixDisplay,
    debug: bool = False,
    figures: bool = False,
    encoded: bool = False,
) -> Compared:
    """Run what is left of a study and write its tables.

    Args:
        study: what is compared.
        home: the folder of all its runs; runs of the study that are there are reused or continued.
        jobs: runs at once; from 2 on each has a process with one thread.
        display: shows how the runs go.
        debug: whether the log says everything.
        figures: whether charts are also written for print, as PNG and SVG.
        encoded: whether all texts are in the cache, so that no run need go ahead of others to encode them.

    Raises:
        ConfigError, DataError: before anything runs, if settings or sources are wrong.
        RunError: a run that is there has other settings or other data, the folder holds something else, or
            another process is at work in it. Data that change while the runs go on give no tables.
    """
    if jobs < 1:
        raise ConfigError(f"jobs={jobs}: use 1 or more")
    home = home.absolute()
    check_home(home)
    matrix = matrix_of(study, home)
    check_sources(study)
    for device in {cell.config.device for cell in matrix.cells}:
        check_device(device)
    there = states(matrix.cells)
    left = [cell for cell, state in there.items() if state is not State.FINISHED]
    with places_told(home):
        home.mkdir(parents=True, exist_ok=True)
    with places_told(home), exclusively(home):
        write_study(matrix)
        with display(matrix, left) as progress:
            if jobs == 1 or not left:
                failures = run_here(left, progress, debug)
            else:
                with Workers(min(jobs, len(left)), debug) as workers:
                    failures = workers.run(left, progress, {cell.texts for cell in left if encoded})
        if left:
            states(matrix.cells)
        comparison = comparison_of(matrix)
        write_outcome(matrix, comparison, figures)
        for cell in left:
            # When it ended, the references that now stand beside it need not have been there.
            if is_run(cell.path) and RunDirectory.open(cell.path).finished:
                report([cell.path])
    return Compared(comparison, home, {cell.name: reason for cell, reason in failures.items()})


def check_sources(study: Study) -> None:
    """Raise DataError for sources that are not there, before time goes into the others."""
    problems: list[str] = []
    for source in (one.strip() for sources in study.data for one in sources.split(SEPARATOR)):
        known = Path(source).exists() or source.lower() in PUBLIC or is_pydocs(source)
        if not known:
            try:
                load_source(source)
            except DataError as error:
                problems += error.problems
    if problems:
        raise DataError(problems)
