"""More rounds for a finished run: a new run that begins with all that was kept of it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtag.common.config import RunConfig, flatten
from fedtag.common.config.extension import changed
from fedtag.common.errors import ConfigError, RunError
from fedtag.server.state.checkpoint import CHECKPOINT, CheckpointFolder
from fedtag.server.state.run_state import RunState
from fedtag.server.tracking.artefact import STATES
from fedtag.server.tracking.parent import keep_parent
from fedtag.server.tracking.recorded import recorded_config
from fedtag.server.tracking.run_directory import CLIENTS, METRICS, RunDirectory, require_free
from fedtag.server.tracking.staging import staged
from fedtag.server.tracking.status import read_status


def settings_of(parent: RunDirectory) -> RunConfig:
    """The settings of a finished run, with where its data and models lie on this machine.

    Raises:
        RunError: it has not finished.
        ConfigError: what it is made of is not there.
    """
    if not parent.finished:
        raise RunError(f"{parent.path} has not finished: go on with it first, and extend it then")
    return recorded_config(parent.path, flatten(parent.read_config()) | parent.read_places())


def last_state(parent: RunDirectory, config: RunConfig) -> RunState:
    """What the server of a finished run, which has these settings, remembers of its last round.

    Raises:
        RunError: its checkpoint is gone or another round's.
    """
    found = RunState.load(CheckpointFolder(parent.path / CHECKPOINT, config.without_places().decisive()))
    if found is None or found[0].round != config.rounds:
        raise RunError(
            f"{parent.path / CHECKPOINT} does not hold round {config.rounds}, the last one: restore it, or train on "
            "from the released model"
        )
    return found[0]


def extending(parent: RunDirectory, given: Mapping[str, Any]) -> RunConfig:
    """The settings of a run that extends a finished one.

    Args:
        parent: the finished one.
        given: settings by dotted key: the `rounds` in all, and places; others must be those of the parent.

    Raises:
        RunError: it cannot be extended.
        ConfigError: its method cannot, there are no more rounds than it has, or another setting differs.
    """
    config = settings_of(parent)
    state = last_state(parent, config)
    before = config.to_flat()
    names = {
        "parent.model": parent.read_model_card().get("fingerprint", ""),
        "parent.run": state.run,
        "parent.rounds": config.rounds,
        "resume": False,
        "out": "",
    }
    _check_unchanged(parent, before, {**before, **given})
    return RunConfig.from_flat({**before, **names, **given})


def _check_unchanged(parent: RunDirectory, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    if differing := changed(before, now):
        raise ConfigError(
            f"{parent.path} is extended with its own settings ({'; '.join(differing)}): leave them out, or train on "
            "from its released model"
        )


def extend(parent: RunDirectory, config: RunConfig, destination: Path) -> None:
    """Put into a new run directory what its first round begins with: rows, the server's state, and who its parent is.

    Disclosures are not taken over: those of the new run are what crosses in it, the parent's lie beside its model.

    Args:
        parent: a finished run.
        config: of the new one.
        destination: its directory, which may hold sites.

    Raises:
        ConfigError: something differs that must not; with the difference.
        RunError: the parent cannot be extended.
    """
    own, before = config.without_places(), settings_of(parent)
    _check_unchanged(parent, before.without_places().decisive(), own.decisive())
    keep_parent(parent, destination, before.rounds)
    for name in (METRICS, CLIENTS):
        shutil.copyfile(parent.path / name, destination / name)
    if (parent.path / STATES).is_dir():
        shutil.copytree(parent.path / STATES, destination / STATES)
    # What clients commit to, draw and seal is of one run; who they are, they say anew.
    state = replace(
        last_state(parent, before),
        run=uuid.uuid4().hex,
        stated={},
        groups=(),
        opened=(),
        letters={},
        nodes={},
        releases={},
    )
    state.save(CheckpointFolder(destination / CHECKPOINT, own.decisive()))


def opened(path: Path, config: RunConfig, runs: Path) -> RunDirectory:
    """The run directory of a run between machines: a new one, an earlier one, or a new one that extends another.

    Args:
        path: of the directory.
        config: of the run.
        runs: the folder in which the run that is extended lies.

    Raises:
        RunError: the folder is taken, or the run to extend is not there, or cannot be extended.
        ConfigError: a setting differs from that run's that must not.
    """
    if config.resume or not config.parent.run:
        return RunDirectory(path, resume=config.resume)
    require_free(path)
    parent = _called(config.parent.run, runs)
    with staged(path) as made:
        extend(parent, config, made.path)
    return RunDirectory.open(path)


def _called(identifier: str, runs: Path) -> RunDirectory:
    for folder in sorted(path for path in runs.glob("*") if path.is_dir()):
        status = read_status(folder)
        if status is not None and status.run == identifier:
            return RunDirectory.open(folder)
    raise RunError(
        f"run {identifier}, which is to be extended, is not in {runs}: put its directory there, or begin anew"
    )
