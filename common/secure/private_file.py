"""Files that hold secrets: readable by their owner only, complete on disk before anyone relies on them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def private_folder(folder: Path) -> None:
    """Make a folder that others cannot look into, and those above it; an existing one stays as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def replace_private(path: Path, content: bytes) -> None:
    """Replace a file, or leave the old one untouched; for a caller that is alone in writing it.

    The name of the unfinished file is always the same, so that secrets left by a killed writer disappear
    with the next write.
    """
    partial = path.with_name(path.name + ".tmp")
    _write(partial, content)
    partial.replace(path)
    _keep_names(path.parent)


def create_private(path: Path, content: bytes) -> bool:
    """Create a file unless it exists; False if it does. Of several processes, one creates it."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        _write(partial, content)
        path.hardlink_to(partial)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
    _keep_names(path.parent)
    return True


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _keep_names(folder: Path) -> None:
    """A renamed file survives a power cut only if its folder is written, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
