"""The run that a run goes on from, by its released model or with all that was kept of it.

What is needed of it lies in the run directory, so that the run goes on wherever it lies.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from fedtag.common.errors import RunError
from fedtag.common.wording.counts import plural
from fedtag.server.tracking.durable_files import read_object
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import DISCLOSURES, MODEL, MODEL_CARD, RunDirectory

PARENT = "parent"
ORIGIN = "origin.json"


def keep_parent(source: RunDirectory, destination: Path, extended: int = 0) -> None:
    """Copy a released model into a new run directory, with the name of the run that it is from.

    Args:
        source: the run, or a folder with its model.
        destination: the new run directory.
        extended: after how many rounds the run is extended, which may have released no model; 0: only its model counts.
    """
    folder = destination / PARENT
    folder.mkdir(parents=True)
    files = (MODEL, MODEL_CARD, DISCLOSURES) if extended else (MODEL, MODEL_CARD)
    for name in files:
        if (source.path / name).exists() or not extended:
            shutil.copyfile(source.path / name, folder / name)
    origin = {"run": source.path.resolve().name, "extended": extended}
    (folder / ORIGIN).write_text(json.dumps(origin), encoding="utf-8")


def read_parent(directory: RunDirectory, expected: str) -> Release:
    """The released model that a run's settings name by its fingerprint.

    Raises:
        RunError: the run directory has lost it, or has another one.
    """
    folder = directory.path / PARENT
    remedy = "restore the folder, or start a run anew from that model"
    if not folder.is_dir():
        raise RunError(f"{folder}, the model that the run trains on from, is missing: {remedy}")
    release = read_release(RunDirectory.open_release(folder))
    if release.card.fingerprint != expected:
        raise RunError(f"{folder} does not hold the model {expected[:12]} that the settings name: {remedy}")
    return release


def parent_name(directory: RunDirectory) -> str:
    """The name of the run that a run goes on from; empty where it began anew."""
    return str((read_object(directory.path / PARENT / ORIGIN) or {}).get("run", ""))


def parent_words(directory: RunDirectory) -> str:
    """The run and round that a run goes on from; empty where it began anew."""
    folder = directory.path / PARENT
    card, told = read_object(folder / MODEL_CARD), read_object(folder / ORIGIN) or {}
    origin = told.get("run", "a run")
    if rounds := told.get("extended"):
        return f"{origin}, extended after its {plural(rounds, 'round')}"
    if card is None:
        return ""
    return f"{origin}, round {card.get('round')}, model {str(card.get('fingerprint'))[:12]}"
