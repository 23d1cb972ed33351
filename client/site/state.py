"""What a client must remember from one message to the next, on disk, because each may run in a new process."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fedtag.common.errors import FedtagError, RunError
from fedtag.common.tensors import read_tensors, tensor_bytes

RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
FILE = re.compile(r"(.*)round-(\d+)-step-(\d+)\.safetensors")
KEPT_ROUNDS = 2
KEPT_RUNS = 4


def check_run(run: str, kind: type[FedtagError] = RunError) -> None:
    """Raise an error where a run's identifier, which the server chooses, cannot be the name of a folder."""
    if not RUN.fullmatch(run):
        raise kind(f"run {run[:80]!r} is no identifier: 1 to 64 letters, digits or hyphens are allowed")


@dataclass(frozen=True)
class Remembered:
    """What was saved at one step."""

    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any]


class StateStore:
    """Snapshots of one run, one file a step; the newest one before a step is the state at that step.

    Beside them lies what is the same at every step, by name (`keep`).

    A server that resumes from an earlier round finds the snapshot which belonged to it, so that a resumed
    run equals an uninterrupted one. Snapshots of the last two rounds are kept, and the newest older one.

    Args:
        folder: the site's state folder.
        run: the run's identifier; the states of different runs never meet.
        part: name of the snapshots, where something is saved at other steps than the method's own state, which has
            none; the two never meet.
    """

    def __init__(self, folder: Path, run: str, part: str = "") -> None:
        # It becomes the name of a folder beside which old ones are removed.
        check_run(run)
        self.folder = folder / run
        self.prefix = f"{part}-" if part else ""

    def load_before(self, step: int) -> Remembered | None:
        """The newest snapshot saved before `step`; None if there is none.

        Raises:
            RunError: if the file is damaged.
        """
        earlier = [entry for entry in self._entries() if entry[1] < step]
        if not earlier:
            return None
        return _read(max(earlier, key=lambda entry: entry[1])[2])

    def save(
        self, round_number: int, step: int, tensors: Mapping[str, Tensor], values: Mapping[str, Any]
    ) -> None:
        """Write the snapshot of a step atomically and drop those that no resumption can need.

        Raises:
            OSError: it cannot be written; the earlier snapshots stay.
        """
        path = self.folder / f"{self.prefix}round-{round_number:05d}-step-{step:06d}.safetensors"
        self._write(path, tensors, values)
        old = sorted(entry for entry in self._entries() if entry[0] < round_number - KEPT_ROUNDS)
        aborted = [entry for entry in self._entries() if entry[1] > step]
        for _, _, obsolete in [*old[:-1], *aborted]:
            obsolete.unlink(missing_ok=True)

    def find(self, name: str) -> Remembered | None:
        """What was kept for the whole run under a name; None if nothing was.

        Raises:
            RunError: if the file is damaged.
        """
        path = self._kept_file(name)
        return _read(path) if path.is_file() else None

    def keep(self, name: str, remembered: Remembered) -> None:
        """Write, atomically, what holds at every step of the run."""
        self._write(self._kept_file(name), remembered.tensors, remembered.values)

    def document(self, name: str, text: str) -> None:
        """Write, atomically, a file that people may read, and the program does not."""
        self._write_bytes(self.folder / name, text.encode("utf-8"))

    def take_over(self, other: StateStore, without: Collection[str]) -> None:
        """Copy the snapshots of another run, and what it keeps, but for some names; done again, it changes nothing.

        Raises:
            OSError: they cannot be written.
        """
        # Making a folder forgets old runs, of which the other one must not be.
        os.utime(other.folder)
        for path in sorted(other.folder.glob("*.safetensors")):
            if path.stem not in without:
                self._write_bytes(self.folder / path.name, path.read_bytes())

    def _kept_file(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def _write(self, path: Path, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        metadata = {"values": json.dumps(dict(values), allow_nan=False)}
        self._write_bytes(path, tensor_bytes(tensors, metadata))

    def _write_bytes(self, path: Path, data: bytes) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True)
            self._forget_old_runs()
        partial = path.with_suffix(".tmp")
        try:
            partial.write_bytes(data)
        except OSError:
            # The part that fitted would keep a full disk full.
            partial.unlink(missing_ok=True)
            raise
        partial.replace(path)

    def _entries(self) -> list[tuple[int, int, Path]]:
        matches = ((FILE.fullmatch(path.name), path) for path in self.folder.glob("*.safetensors"))
        return [
            (int(match[2]), int(match[3]), path)
            for match, path in matches
            if match and match[1] == self.prefix
        ]

    def _forget_old_runs(self) -> None:
        runs = sorted(
            (path for path in self.folder.parent.iterdir() if path.is_dir() and path != self.folder),
            key=lambda path: path.stat().st_mtime,
        )
        for obsolete in runs[: -(KEPT_RUNS - 1)]:
            shutil.rmtree(obsolete, ignore_errors=True)


def newest_kept(folder: Path, name: str) -> Remembered | None:
    """What the newest run of a site that kept anything under a name has kept; None if none did.

    Args:
        folder: the site's state folder.
        name: as it was given to `StateStore.keep`.

    Raises:
        RunError: if the file is damaged.
    """
    found = sorted(folder.glob(f"*/{name}.safetensors"), key=lambda path: path.stat().st_mtime_ns)
    return _read(found[-1]) if found else None


def _read(path: Path) -> Remembered:
    try:
        tensors, metadata = read_tensors(path)
        return Remembered(tensors, json.loads(metadata["values"]))
    except (OSError, ValueError, KeyError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}); delete it and start the run again") from error
