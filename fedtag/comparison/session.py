"""A comparison from its study to its tables."""

from __future__ import annotations

from pathlib import Path

from fedtag.client.data.sources import PUBLIC, load_source
from fedtag.client.run.simulated import SEPARATOR
from fedtag.common.errors import ConfigError, DataError
from fedtag.comparison.execution import State, states
from fedtag.comparison.matrix import matrix_of
from fedtag.comparison.outcome import (
    check_home,
    comparison_of,
    show_failures,
    show_outcome,
    write_outcome,
    write_study,
)
from fedtag.comparison.progress import watched
from fedtag.comparison.study import Study
from fedtag.comparison.workers import Workers, run_here
from fedtag.deploy.terminal.console import notices, say
from fedtag.deploy.terminal.interruption import TerminatedError, terminable
from fedtag.runs.simulation import check_device
from fedtag.server.tracking.durable_files import exclusively


def compare(study: Study, home: Path, jobs: int = 1, debug: bool = False) -> bool:
    """Run what is left of a study and write its tables.

    Args:
        study: what is compared.
        home: the folder of all its runs; runs of the study that are there are reused or continued.
        jobs: runs at once; from 2 on each has a process with one thread.
        debug: whether the log tells everything.

    Returns:
        whether every run has finished.

    Raises:
        ConfigError, DataError: before anything runs, if settings or sources are wrong.
        RunError: a run that is there has other settings or other data, the folder holds something else, or
            another process is at work in it. Data that change while the runs go on give no tables.
    """
    if jobs < 1:
        raise ConfigError(f"--jobs {jobs}: use 1 or more")
    home = home.absolute()
    check_home(home)
    matrix = matrix_of(study, home)
    check_sources(study)
    for device in {cell.config.device for cell in matrix.cells}:
        check_device(device)
    there = states(matrix.cells)
    left = [cell for cell, state in there.items() if state is not State.FINISHED]
    console = notices()
    counts = {"row": matrix.study.rows, "data set": matrix.data, "seed": study.seeds, "run": matrix.cells}
    size = ", ".join(f"{len(of)} {name}{'' if len(of) == 1 else 's'}" for name, of in counts.items())
    home.mkdir(parents=True, exist_ok=True)
    failures = {}
    with exclusively(home), terminable():
        say(console, f"{size}; {len(there) - len(left)} finished before; results go to {home}")
        write_study(matrix)
        try:
            if left:
                with watched(left) as watch:
                    if jobs == 1:
                        failures = run_here(left, watch, debug)
                    else:
                        with Workers(min(jobs, len(left)), debug) as workers:
                            failures = workers.run(left, watch)
        except (KeyboardInterrupt, TerminatedError):
            say(console, "stopped; the same command goes on from here", "yellow")
            raise
        if left:
            states(matrix.cells)
        comparison = comparison_of(matrix)
        write_outcome(matrix, comparison)
    show_outcome(comparison, home)
    if failures:
        show_failures({cell.name: reason for cell, reason in failures.items()})
    return not failures


def check_sources(study: Study) -> None:
    """Raise DataError for sources that are not there, before time goes into the others."""
    problems: list[str] = []
    for source in (one.strip() for sources in study.data for one in sources.split(SEPARATOR)):
        known = Path(source).exists() or source.lower() in PUBLIC or source.partition(":")[0] == "pydocs"
        if not known:
            try:
                load_source(source)
            except DataError as error:
                problems += error.problems
    if problems:
        raise DataError(problems)
