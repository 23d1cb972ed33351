"""The process that trains a run, seen from another one."""

from __future__ import annotations

from datetime import datetime

import psutil

from fedtag.server.tracking.status import RunStatus

# Process times come from the kernel's clock and differ from the wall clock a little.
CLOCK_SECONDS = 5.0


def lives(status: RunStatus) -> bool:
    """Whether the process of a run on this machine is there; another one with its number began later."""
    try:
        process = psutil.Process(status.pid)
        began = process.create_time()
        return (
            process.status() != psutil.STATUS_ZOMBIE
            and began <= datetime.fromisoformat(status.started).timestamp() + CLOCK_SECONDS
        )
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
