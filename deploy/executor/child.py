"""A task in a process of its own: forked from one that has loaded what it needs, with clean hands."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flwr.proto.task_pb2 import Task

CAUGHT = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
"""What an executor waits for, and what its children take as every program does."""
FIRST_DESCRIPTOR = 3


@dataclass
class Child:
    """A process that carries out a task.

    Args:
        pid: of the process.
        task: that it carries out.
        token: of the task.
        since: when it started, `time.monotonic()`.
    """

    pid: int
    task: Task
    token: str
    since: float = field(default_factory=time.monotonic)


def fork(task: Task, token: str, work: Callable[[], None]) -> Child:
    """Start a process for a task.

    It shares memory with this one, and neither signals, nor descriptors but the standard ones, nor random state.

    Args:
        task: to be carried out.
        token: of the task.
        work: the work; the process ends with 0 when it returns.
    """
    for stream in (sys.stdout, sys.stderr):
        # What is left in a buffer would be written twice.
        stream.flush()
    pid = os.fork()
    if pid:
        return Child(pid, task, token)
    code = 1
    try:
        _begin()
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # What the parent has registered for its own end is none of this process's business.
        os._exit(code)


def _begin() -> None:
    for number in CAUGHT:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CAUGHT)
    for descriptor in _descriptors():
        with contextlib.suppress(OSError):
            os.close(descriptor)
    random.seed()
    # Libraries may draw from it.
    np.random.seed(int.from_bytes(os.urandom(4), "little"))  # noqa: NPY002


def _descriptors() -> set[int]:
    """What is open beyond the standard streams; the limit of what could be is a million and more."""
    found = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    return {number for number in found if number >= FIRST_DESCRIPTOR}
