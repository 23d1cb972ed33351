"""A lock between processes, which ends with whoever holds it."""

from __future__ import annotations

import fcntl
import os
import time
from io import FileIO
from pathlib import Path

from fedtag.common.errors import FedtagError, RunError

POLL_SECONDS = 0.002
LONGEST_POLL_SECONDS = 0.05


def locked(
    path: Path, seconds: float, error: type[FedtagError] = RunError, *, shared: bool = False
) -> FileIO:
    """Take a lock, which is given back when what comes back is closed, or its process ends.

    Args:
        path: of a file that is made where it is missing; its folder is there.
        seconds: to wait for another one.
        error: what is raised after that.
        shared: with all others that share it; without, it is held alone.

    Raises:
        FedtagError: of the given kind; somebody else holds it for longer.
    """
    lock = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline, pause = time.monotonic() + seconds, POLL_SECONDS
    while True:
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > deadline:
                lock.close()
                raise error(f"{path} stays locked for {seconds:g} s: end the process that holds it") from None
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_POLL_SECONDS)
