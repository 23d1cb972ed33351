"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_whole(path: Path, data: bytes, durable: bool = True, like: Path | None = None) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part; arguments as of `whole`."""
    with whole(path, durable, like) as stream:
        stream.write(data)


@contextmanager
def whole(path: Path, durable: bool = True, like: Path | None = None) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file when it ends without an error, and is nothing otherwise.

    Args:
        path: its folder is made where it is missing.
        durable: wait until the disk has it; otherwise a power failure, but no killed process, can lose it.
        like: a file whose mode, and owner where that is permitted, it gets; without one it is for its owner alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            if like is not None:
                _become_like(descriptor, like.stat())
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _become_like(descriptor: int, other: os.stat_result) -> None:
    mode = stat.S_IMODE(other.st_mode)
    try:
        os.fchown(descriptor, other.st_uid, other.st_gid)
    except PermissionError:
        try:
            os.fchown(descriptor, -1, other.st_gid)
        except PermissionError:
            # What a group was allowed is nothing for another one.
            mode &= ~stat.S_IRWXG
    os.fchmod(descriptor, mode)
