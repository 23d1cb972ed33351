"""What a forked process takes over from the one that was ready, and what it does not."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.proto.task_pb2 import Task

from fedtag.deploy.executor.child import CAUGHT, Child, fork


def done(child: Child) -> int:
    """The exit code of a child."""
    _, status = os.waitpid(child.pid, 0)
    return os.waitstatus_to_exitcode(status)


def looking(place: Path) -> Callable[[], None]:
    """Work that writes down what its process has."""

    def work() -> None:
        descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
        found = {
            "open": [
                number for number in descriptors if number > 2 and Path(f"/proc/self/fd/{number}").exists()
            ],
            "drawn": [random.random(), float(np.random.random())],  # noqa: NPY002
            "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
            "handled": [
                signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGCHLD)
            ],
        }
        place.write_text(json.dumps(found))

    return work


def test_a_child_has_neither_descriptors_nor_random_state_nor_signals_of_its_parent(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, CAUGHT)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        with tempfile.TemporaryFile() as secret:
            os.set_inheritable(secret.fileno(), True)
            places = [tmp_path / "first", tmp_path / "second"]
            ends = [done(fork(Task(), "token", looking(place))) for place in places]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert ends == [0, 0]
    first, second = (json.loads(place.read_text()) for place in places)
    for one in (first, second):
        # The listing itself has one open while it looks.
        assert one["open"] == []
        assert one["blocked"] == []
        assert one["handled"] == [True, True]
    assert not set(first["drawn"]) & set(second["drawn"])


@pytest.mark.parametrize(("end", "code"), [(ValueError("x"), 1), (SystemExit(3), 3), (SystemExit(), 0)])
def test_how_a_child_ends_is_told_by_its_code(end: BaseException, code: int) -> None:
    def work() -> None:
        raise end

    assert done(fork(Task(), "token", work)) == code
