"""What a worker and its clients must have in common: the release, the code, the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import client
import common
from client.worker.frames import Frame
from common.errors import WireError

PACKAGES = (client, common)
NOT_INSTALLED = "not installed"


@dataclass(frozen=True)
class Identity:
    """The program that a process runs.

    Args:
        version: of the installed fedtag.
        code: SHA-256 of the source of the packages client and common, which in a deployment are those of the
            bundle that came with the run.
    """

    version: str
    code: str

    @classmethod
    def own(cls) -> Identity:
        """Of this process."""
        try:
            version = metadata.version("fedtag")
        except metadata.PackageNotFoundError:
            version = NOT_INSTALLED
        return cls(version, code_digest(bundle()))

    @classmethod
    def told(cls, frame: Frame) -> Identity:
        """The one that a frame states.

        Raises:
            WireError: it states none.
        """
        return cls(frame.text("version"), frame.text("code"))


def bundle() -> Path:
    """The folder with the packages that this process runs."""
    if client.__file__ is None:
        raise WireError("the package client has no folder: install fedtag anew")
    return Path(client.__file__).resolve().parents[1]


def code_digest(folder: Path) -> str:
    """SHA-256 over names and contents of the Python files of client and common in a folder."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((folder / package.__name__).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def settings_digest(run_config: Mapping[str, Any], node_config: Mapping[str, Any]) -> str:
    """SHA-256 of the run's settings together with those of the site."""
    text = json.dumps([dict(run_config), dict(node_config)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
