from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from fedtag.common.errors import DeploymentError, RunError
from fedtag.common.secure.lock import locked


def test_those_who_share_a_lock_hold_it_together_and_whoever_is_alone_waits(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with (
        locked(path, 1.0, shared=True),
        locked(path, 0.01, shared=True),
        pytest.raises(RunError, match="stays locked"),
    ):
        locked(path, 0.01)
    with locked(path, 1.0), pytest.raises(RunError, match="stays locked"):
        locked(path, 0.01, shared=True)


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "lock", [], []

    def enter() -> None:
        with locked(path, 10.0):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 5
    with locked(path, 1.0), pytest.raises(RunError, match="stays locked"), locked(path, 0.05):
        pass
    with locked(path, 1.0), pytest.raises(DeploymentError), locked(path, 0.01, DeploymentError):
        pass
