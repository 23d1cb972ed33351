"""An institution whose clock is ten minutes wrong.

What is shifted is the time of day of one site's processes, as Python, OpenSSL and gRPC ask for it.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.system.breakable import Breakable
from tests.system.conftest import Undisturbed, assert_same_model
from tests.system.runbook import RUNBOOK
from tests.system.shifted_clock import shifted, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

TEN_MINUTES = 600
TOLERATED = 200


def test_the_clock_is_shifted(tmp_path: Path) -> None:
    code = "import time, datetime; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=shifted(tmp_path, TEN_MINUTES),
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, steady = map(float, done.stdout.split())
    assert first - time.time() == pytest.approx(TEN_MINUTES, abs=30)
    assert second - time.time() == pytest.approx(TEN_MINUTES, abs=30)
    assert time.monotonic() - steady < 30


@pytest.mark.parametrize("seconds", [TEN_MINUTES, -TEN_MINUTES, 30])
def test_with_keys_a_site_with_a_wrong_clock_is_refused(
    encrypted: Breakable, tmp_path: Path, seconds: int
) -> None:
    assert_refused(encrypted, shifted(tmp_path, seconds))


def test_without_keys_as_well(three_sites: Breakable, tmp_path: Path) -> None:
    three_sites.stop("site-c")
    assert_refused(three_sites, shifted(tmp_path, TEN_MINUTES))


def assert_refused(federation: Breakable, environment: dict[str, str]) -> None:
    program = federation.start_node("site-c", environment, wait=False)
    deadline = time.monotonic() + 60
    while program.exit_code is None and time.monotonic() < deadline:
        time.sleep(0.2)
    log = program.log_tail(8)
    program.kill()
    assert not federation.online("site-c")
    # All that Flower says; the SuperLink's answer, which it leaves out, is in test_replay.py.
    assert program.exit_code == 0, log
    assert "SuperNode terminated gracefully" in log
    assert "`SuperNode terminated gracefully`" in RUNBOOK.read_text(encoding="utf-8")


def test_the_others_train_and_a_right_clock_lets_in(encrypted: Breakable) -> None:
    running = encrypted.run("right", rounds=4, exchange__start_timeout=4)
    running.wait_for_checkpoint(1)
    encrypted.start_node("site-c")
    running.finish()
    counts = [row.clients_ok for row in running.rounds]
    assert counts[0] == 2
    assert counts[-1] == 3


def test_a_clock_that_is_a_little_behind_changes_nothing(
    three_sites: Breakable, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    three_sites.stop("site-c")
    three_sites.start_node("site-c", shifted(tmp_path, -TOLERATED))
    try:
        running = three_sites.run("skewed", rounds=3).finish()
    finally:
        three_sites.stop("site-c")
    assert {(row.clients_ok, row.clients_failed) for row in running.rounds} == {(3, 0)}
    assert_same_model(undisturbed(rounds=3), running.out)
