from __future__ import annotations

import subprocess
import sys
import time

from fedtag.runs.stopwatch import Stopwatch

WORK = "sum(range(3_000_000))"


def test_parts_count_what_passes_here_and_in_processes_that_have_ended() -> None:
    watch = Stopwatch()
    with watch.part("sleep"):
        time.sleep(0.2)
    with watch.part("work"):
        subprocess.run([sys.executable, "-c", WORK], check=True)
    assert list(watch.parts) == ["sleep", "work"]
    assert watch.parts["sleep"].wall >= 0.2 > watch.parts["sleep"].processor
    assert watch.parts["work"].processor > 0.01
    assert watch.total.wall == watch.parts["sleep"].wall + watch.parts["work"].wall
