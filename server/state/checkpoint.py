"""The server's checkpoints, from which a stopped run goes on as if it had not stopped."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fedtag.common.errors import RunError
from fedtag.server.tracking.durable_files import json_text, write_atomically

SCHEMA = "1"
KEPT = 2
HEADER = "fedtag"
FILE_NAME = re.compile(r"round-(\d+)\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """What the server knew after a round.

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

    def save(self, round_number: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of a round and remove all but it and the one before.

        Args:
            round_number: at least 0.
            tensors: any device and layout; copied.
            state: JSON-able, finite.

        Raises:
            RunError: the state is not JSON-able.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        header = {
            "schema": SCHEMA,
            "round": str(round_number),
            "settings": self.settings,
            "settings_digest": digest_of(self.settings),
            "state": json_text(dict(state), f"the state of round {round_number}"),
        }
        header["content_digest"] = content_digest(header, owned)
        path = self.path / f"round-{round_number:04d}.safetensors"
        # One entry, because safetensors writes several in an order that changes from call to call.
        metadata = {HEADER: json.dumps(header, sort_keys=True)}
        write_atomically(path, safetensors.torch.save(owned, metadata=metadata))
        earlier = [number for number in self.rounds() if number < round_number][-(KEPT - 1) :]
        kept = {f"round-{number:04d}.safetensors" for number in (*earlier, round_number)}
        for other in self.path.iterdir():
            if other.name not in kept and other.name.lstrip(".").startswith("round-"):
                other.unlink()
        return path

    def rounds(self) -> list[int]:
        """The rounds that have a file, ascending."""
        if not self.path.is_dir():
            return []
        matches = (FILE_NAME.fullmatch(path.name) for path in self.path.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def load_latest(self) -> Checkpoint | None:
        """The newest checkpoint that can be read, None where there is no file at all.

        Raises:
            RunError: every file is damaged, or the settings are not those of the run.
        """
        damaged: list[str] = []
        rounds = self.rounds()
        for number in reversed(rounds):
            path = self.path / f"round-{number:04d}.safetensors"
            try:
                round_, tensors, state = self.load(path)
            except DamagedCheckpointError as error:
                damaged.append(str(error))
                continue
            note = f"{'; '.join(damaged)}; going on from round {round_} instead" if damaged else None
            return Checkpoint(round_, tensors, state, note)
        if rounds:
            raise RunError(
                f"{'; '.join(damaged)}; no checkpoint is left, start the run anew with another --out"
            )
        return None

    def load(self, path: Path) -> tuple[int, dict[str, Tensor], dict[str, Any]]:
        """Round, tensors and state of one file.

        Raises:
            DamagedCheckpointError: the file is cut off or changed.
            RunError: it belongs to other settings or to another version of fedtag.
        """
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header: dict[str, str] = json.loads((file.metadata() or {}).get(HEADER, "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, OSError, ValueError) as error:
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
