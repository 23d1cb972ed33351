"""Starting or continuing one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.common.logs import LOGGER
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import PreparedRun, free_folder, prepare, reopen, run_in_process
from fedtag.server.tracking.run_directory import RunDirectory

Engine = Callable[[PreparedRun, Progress], None]
"""Carries out the rounds that are left of a run."""


def start(
    config: RunConfig,
    engine: Engine = run_in_process,
    progress: Progress = LOGGED,
    graphs: Sequence[TextGraph] = (),
    parent: Path | None = None,
) -> Path:
    """A new run; its folder is `config.out`, or the next free one under runs/.

    Args:
        config: of the run.
        engine: carries out its rounds.
        progress: told how it goes.
        graphs: what its data.source names, where it is in memory.
        parent: a run directory, or a folder with a released model, that training goes on from.

    Returns:
        the run directory.

    Raises:
        ConfigError, DataError: settings or data are at fault.
        RunError: the folder is taken.
        QuorumError: too few clients answered; the run can go on later.
    """
    if not config.out:
        out = str(free_folder(Path("runs").absolute(), config))
        config = config.model_copy(update={"out": out})
    return _carried_out(prepare(config, graphs, parent), engine, progress)


def resume(path: Path, engine: Engine = run_in_process, progress: Progress = LOGGED) -> Path:
    """Go on with a run that was stopped; a finished one stays as it is.

    Returns:
        the run directory.

    Raises:
        RunError: it is no run, or cannot be continued.
        QuorumError: too few clients answered; the run can go on later.
    """
    if RunDirectory.open(path).finished:
        LOGGER.info("%s is finished: there is nothing to continue", path)
        return path.absolute()
    return _carried_out(reopen(path), engine, progress)


def _carried_out(run: PreparedRun, engine: Engine, progress: Progress) -> Path:
    out, sites = run.directory.path, len(run.sites)
    clients = f"{sites} client{'' if sites == 1 else 's'}"
    LOGGER.info("%s over %s, results go to %s", run.config.method, clients, out)
    try:
        engine(run, progress)
    except KeyboardInterrupt as stopped:
        stopped.add_note(f"go on with fedtag.open_run({str(out)!r}).resume()")
        raise
    return out
