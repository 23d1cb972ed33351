"""Starting or continuing one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedtag.client.data.text_graph import TextGraph
from fedtag.common.config import RunConfig
from fedtag.common.errors import QuorumError, RunError
from fedtag.common.logs import LOGGER
from fedtag.common.wording.counts import plural
from fedtag.runs.places import places_told
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import (
    PreparedRun,
    free_folder,
    next_free,
    prepare,
    prepare_extension,
    reopen,
    run_in_process,
)
from fedtag.server.run.extension import extending
from fedtag.server.tracking.run_directory import SITES, RunDirectory

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
        RunError: the folder is taken, or cannot be written.
        QuorumError: too few clients answered; the run can go on later.
    """
    if not config.out:
        out = str(free_folder(Path("runs").absolute(), config))
        config = config.model_copy(update={"out": out})
    with places_told(Path(config.out)):
        prepared = prepare(config, graphs, parent)
    return _carried_out(prepared, engine, progress)


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


def extend(
    path: Path,
    given: Mapping[str, Any],
    engine: Engine = run_in_process,
    progress: Progress = LOGGED,
) -> Path:
    """More rounds for a finished run, as a new run that goes on with all that was kept of it.

    Args:
        path: its directory, with the folders of its sites.
        given: settings by dotted key: `rounds` in all, and what may differ beside them, which decides no result. The
            folder `out` is the next free one beside the parent's where nothing is given.
        engine, progress: as of `start`.

    Returns:
        the run directory.

    Raises:
        ConfigError: a setting differs that must not; with the difference.
        RunError: the run has not finished, or something that was kept of it is gone.
        QuorumError: too few clients answered; the run can go on later.
    """
    parent = RunDirectory.open(path.absolute())
    if not (parent.path / SITES).is_dir():
        raise RunError(
            f"{path} has no folders of sites, which are other machines': write the app of the longer run with "
            "`fedtag bundle APP --resume`"
        )
    config = extending(parent, given)
    # No number alone: beside seed-0 of a comparison, seed-1 is another run's place.
    out = config.out or str(next_free(parent.path.with_name(f"{parent.path.name}-extended")))
    with places_told(Path(out)):
        prepared = prepare_extension(config.model_copy(update={"out": out}), parent)
    return _carried_out(prepared, engine, progress)


def _carried_out(run: PreparedRun, engine: Engine, progress: Progress) -> Path:
    out, clients = run.directory.path, plural(len(run.sites), "client")
    LOGGER.info("%s over %s, results go to %s", run.config.method, clients, out)
    try:
        with places_told(out):
            engine(run, progress)
    except (KeyboardInterrupt, QuorumError) as stopped:
        stopped.add_note(f"go on with fedtag.open_run({str(out)!r}).resume()")
        raise
    return out
