"""What a worker and its clients must have in common: the release, the code, the settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedtag.client
import fedtag.common
from fedtag.client.worker.frames import Frame
from fedtag.common.wire.protocol import installed_release

PACKAGES = (fedtag.client, fedtag.common)


@dataclass(frozen=True)
class Identity:
    """The program that a process runs.

    Args:
        version: of the installed fedtag.
        code: SHA-256 of the source of the packages client and common, which may have changed on disk since a worker
            loaded them.
    """

    version: str
    code: str

    @classmethod
    def own(cls) -> Identity:
        """Of this process."""
        return cls(installed_release(), code_digest(folders()))

    @classmethod
    def told(cls, frame: Frame) -> Identity:
        """The one that a frame states.

        Raises:
            WireError: it states none.
        """
        return cls(frame.text("version"), frame.text("code"))


def folders() -> dict[str, Path]:
    """Where the packages that this process runs lie, by name."""
    return {package.__name__: Path(package.__path__[0]).resolve() for package in PACKAGES}


def code_digest(places: Mapping[str, Path]) -> str:
    """SHA-256 over names and contents of the Python files of some packages.

    Args:
        places: folders by the packages' names.
    """
    digest = hashlib.sha256()
    for name, folder in sorted(places.items()):
        for path in sorted(folder.rglob("*.py")):
            content = path.read_bytes()
            inside = path.relative_to(folder).as_posix()
            digest.update(f"{name}/{inside}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def settings_digest(run_config: Mapping[str, Any], node_config: Mapping[str, Any]) -> str:
    """SHA-256 of the run's settings together with those of the site."""
    text = json.dumps([dict(run_config), dict(node_config)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
