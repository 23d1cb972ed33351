"""Processes of a comparison whose parent is killed, so that it can end none of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

COMPARISON = """
import sys
from fedtag.common.config import RunConfig
from fedtag.comparison.matrix import Cell
from fedtag.comparison.progress import Note, Step
from fedtag.comparison.workers import Workers

class Reports:
    def begin(self, cell):
        pass

    def end(self, cell, error):
        print("ended", error, flush=True)

    def report(self, cell, said):
        if isinstance(said, Step) and said.what == "rounds":
            (worker, _), = workers.busy.values()
            print("process", worker.process.pid, flush=True)

if __name__ == "__main__":
    source, out = sys.argv[1:]
    # Without an end: no round is ever over, so that nothing is sent that could fail.
    settings = {"method": "fedavg", "data.source": source, "clients": 2, "data.partition": "random", "device": "cpu"}
    endless = {"train.epochs": 10**9, "exchange.first-deadline": 3600.0, "out": out}
    with Workers(2, debug=False) as workers:
        workers.run([Cell("fedavg", "tiny", 0, RunConfig.from_flat({**settings, **endless}))], Reports())
"""


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a process, of which this one is no parent, ends in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        state = Path(f"/proc/{pid}/stat")
        try:
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_workers_end_when_their_parent_is_killed(
    write_feature_folder: Callable[..., Path], tmp_path: Path
) -> None:
    script = tmp_path / "comparison.py"
    script.write_text(COMPARISON, encoding="utf-8")
    command = [
        sys.executable,
        str(script),
        str(write_feature_folder(tmp_path / "data")),
        str(tmp_path / "run"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as comparison:
        assert comparison.stdout is not None
        word, _, printed = comparison.stdout.readline().strip().partition(" ")
        worker = None
        try:
            assert word == "process", printed
            worker = int(printed)
            time.sleep(1)
            assert not ends_within(worker, 0.5)
            comparison.kill()
            comparison.wait()
            assert ends_within(worker, 20)
        finally:
            comparison.kill()
            if worker is not None and not ends_within(worker, 0.1):
                os.kill(worker, signal.SIGKILL)
