"""Sites that take long for their work: they say so, and a round has the results that it would have without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.breakable import Breakable
from tests.system.conftest import Undisturbed, assert_same_model

PATIENCE = 0.3
pytestmark = pytest.mark.slow

LONG = {"rounds": 2, "train__epochs": 150}
SLOW = "site-b"


def test_a_site_that_works_for_longer_than_its_patience_gives_the_same_result(
    three_sites: Breakable, undisturbed: Undisturbed
) -> None:
    three_sites.stop(SLOW)
    three_sites.start_node(SLOW, told={"worker-patience": PATIENCE})
    running = three_sites.run("long-work", **LONG)
    running.wait_until(lambda: '"working_since": "' in status(running.out), "a sign")
    running.finish()
    signs = [row for row in running.disclosures if row.kind == "working"]
    assert SLOW in {name for row in signs for name in row.senders}
    assert max(one.bytes / one.count for row in signs for one in row.crossings) < 4000
    assert {row.clients_failed for row in running.rounds} == {0}
    assert_same_model(running.out, undisturbed(**LONG))


def status(out: Path) -> str:
    found = out / "status.json"
    return found.read_text() if found.exists() else ""
