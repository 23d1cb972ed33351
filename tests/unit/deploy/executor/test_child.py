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

from fedtag.deploy.executor.child import CAUGHT, Child, Tell, fork


def done(child: Child) -> tuple[int, bytes]:
    """The exit code of a child and what it told."""
    _, status = os.waitpid(child.pid, 0)
    return os.waitstatus_to_exitcode(status), child.told()


def looking(place: Path) -> Callable[[Tell], None]:
    """Work that writes down what its process has."""

    def work(tell: Tell) -> None:
        tell(b"taken")
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
    assert ends == [(0, b"taken")] * 2
    first, second = (json.loads(place.read_text()) for place in places)
    for one in (first, second):
        # The listing itself has one open while it looks.
        assert one["open"] == []
        assert one["blocked"] == []
        assert one["handled"] == [True, True]
    assert not set(first["drawn"]) & set(second["drawn"])


@pytest.mark.parametrize(("end", "code"), [(ValueError("x"), 1), (SystemExit(3), 3), (SystemExit(), 0)])
def test_how_a_child_ends_is_told_by_its_code(end: BaseException, code: int) -> None:
    def work(tell: Tell) -> None:
        raise end

    assert done(fork(Task(), "token", work)) == (code, b"")


def test_a_child_whose_parent_hears_no_more_goes_on(tmp_path: Path) -> None:
    def work(tell: Tell) -> None:
        # The parent closes its end at once.
        while not (tmp_path / "closed").exists():
            pass
        tell(b"x" * 100)
        (tmp_path / "done").touch()

    child = fork(Task(), "token", work)
    os.close(child.pipe)
    (tmp_path / "closed").touch()
    _, status = os.waitpid(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tmp_path / "done").exists()
