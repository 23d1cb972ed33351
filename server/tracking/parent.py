"""The released model that a run trains on from: kept in the run directory, so that the run goes on wherever it lies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fedtag.common.errors import RunError
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import MODEL, MODEL_CARD, RunDirectory, read_object

PARENT = "parent"
ORIGIN = "origin.json"


def keep_parent(source: RunDirectory, destination: Path) -> None:
    """Copy a released model into a new run directory, with the name of the run that it is from."""
    folder = destination / PARENT
    folder.mkdir(parents=True)
    for name in (MODEL, MODEL_CARD):
        shutil.copyfile(source.path / name, folder / name)
    (folder / ORIGIN).write_text(json.dumps({"run": source.path.resolve().name}), encoding="utf-8")


def read_parent(directory: RunDirectory, expected: str) -> Release:
    """The released model that a run's settings name by its fingerprint.

    Raises:
        RunError: the run directory has lost it, or has another one.
    """
    folder = directory.path / PARENT
    remedy = "restore the folder, or start the run anew with --from"
    if not folder.is_dir():
        raise RunError(f"{folder}, the model that the run trains on from, is missing: {remedy}")
    release = read_release(RunDirectory.open_release(folder))
    if release.card.fingerprint != expected:
        raise RunError(f"{folder} does not hold the model {expected[:12]} that the settings name: {remedy}")
    return release


def parent_words(directory: RunDirectory) -> str:
    """The run and round that a run trains on from; empty where it began anew."""
    folder = directory.path / PARENT
    card = read_object(folder / MODEL_CARD)
    if card is None:
        return ""
    origin = (read_object(folder / ORIGIN) or {}).get("run", "a run")
    return f"{origin}, round {card.get('round')}, model {str(card.get('fingerprint'))[:12]}"
