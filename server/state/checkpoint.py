"""The server's checkpoints, from which a stopped run goes on as if it had not stopped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedtag.common.errors import RunError
from fedtag.common.tensors import owned, packed, read_tensors
from fedtag.server.tracking.durable_files import json_text, write_atomically

SCHEMA = "6"
KEPT = 2
HEADER = "fedtag"
CHECKPOINT = "checkpoint"
"""The folder of a run directory."""
FILE_NAME = re.compile(r"round-(\d+)(?:-(\d+))?\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """What the server knew after a round; 0 is before the first.

    `note` says in one sentence that newer files were damaged and left out; None where none was.
    """

    round: int
    tensors: dict[str, Tensor]
    state: dict[str, Any]
    note: str | None = None


class DamagedCheckpointError(RunError):
    """A checkpoint file is cut off, or its content is not what was written."""


class CheckpointFolder:
    """The last two checkpoints of a run, one safetensors file each.

    Args:
        path: the folder, usually `checkpoint/` of a run directory; made at the first save.
        settings: JSON-able; what must not change between the parts of a run.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.settings = settings_text(settings)

    def save(
        self, round_number: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], step: int = 0
    ) -> Path:
        """Write the checkpoint of a round and remove all but it and the one before.

        Args:
            round_number: at least 0.
            tensors: any device and layout; copied.
            state: JSON-able, finite.
            step: after which one of several in the same round it is; the last has the largest number, or 0 if it is
                the only one.

        Raises:
            RunError: the state is not JSON-able.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        kept = owned(tensors)
        header = {
            "schema": SCHEMA,
            "round": str(round_number),
            "settings": self.settings,
            "settings_digest": digest_of(self.settings),
            "state": json_text(dict(state), f"the state of round {round_number}"),
        }
        header["content_digest"] = content_digest(header, kept)
        path = self.path / file_name(round_number, step)
        # One entry, because safetensors writes several in an order that changes from call to call.
        metadata = {HEADER: json.dumps(header, sort_keys=True)}
        write_atomically(path, packed(kept, metadata))
        earlier = [place for place in self.places() if place < (round_number, step)][-(KEPT - 1) :]
        names = {file_name(*place) for place in (*earlier, (round_number, step))}
        for other in self.path.iterdir():
            if other.name not in names and other.name.lstrip(".").startswith("round-"):
                other.unlink()
        return path

    def places(self) -> list[tuple[int, int]]:
        """The rounds, and steps in them, that have a file, ascending."""
        if not self.path.is_dir():
            return []
        matches = (FILE_NAME.fullmatch(path.name) for path in self.path.iterdir())
        return sorted((int(match[1]), int(match[2] or 0)) for match in matches if match)

    def load_latest(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, None where there is no file at all.

        Raises:
            RunError: every file is damaged, or the settings are not those of the run.
        """
        damaged: list[str] = []
        places = self.places()
        for place in reversed(places):
            path = self.path / file_name(*place)
            try:
                round_, tensors, state = self.load(path)
            except DamagedCheckpointError as error:
                damaged.append(str(error))
                continue
            note = f"{'; '.join(damaged)}; going on from round {round_} instead" if damaged else None
            return Checkpoint(round_, tensors, state, note)
        if places:
            raise RunError(
                f"{'; '.join(damaged)}; no checkpoint is left, start the run anew with another out="
            )
        return None

    def load(self, path: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
        """Round, tensors and state of one file.

        Raises:
            DamagedCheckpointError: the file is cut off or changed.
            RunError: it belongs to other settings or to another version of fedtag.
        """
        try:
            tensors, metadata = read_tensors(path)
            header: dict[str, str] = json.loads(metadata.get(HEADER, "{}"))
        except (OSError, ValueError, RecursionError) as error:
            raise DamagedCheckpointError(f"{path.name} is damaged ({error})") from error
        expected = header.pop("content_digest", None)
        if expected != content_digest(header, tensors):
            raise DamagedCheckpointError(f"{path.name} is damaged (its SHA-256 is not the one written in it)")
        if header["schema"] != SCHEMA:
            raise RunError(
                f"{path} has schema {header['schema']}, this fedtag reads {SCHEMA}; resume with the same version"
            )
        if header["settings_digest"] != digest_of(self.settings):
            changes = "; ".join(differences(json.loads(header["settings"]), json.loads(self.settings)))
            raise RunError(
                f"{path} belongs to other settings ({changes}); resume with the settings in the run's config.toml"
            )
        return int(header["round"]), tensors, json.loads(header["state"])


def file_name(round_number: int, step: int) -> str:
    """Of the checkpoint after a round, or after a step of one."""
    return f"round-{round_number:04d}{f'-{step:04d}' if step else ''}.safetensors"


def settings_text(settings: Mapping[str, Any]) -> str:
    """The settings as JSON with sorted keys, so that equal settings are equal texts."""
    plain = json.loads(json_text(dict(settings), "the settings of the checkpoint"))
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def digest_of(text: str) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def content_digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over the header's entries and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(json.dumps(dict(header), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """One phrase for each setting that differs, with both values."""
    phrases = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            phrases += differences(before, after, f"{prefix}{key}.")
        elif before != after:
            phrases.append(f"{prefix}{key} was {before!r}, now {after!r}")
    return phrases
