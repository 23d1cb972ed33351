"""Institutions that go in the middle of a round, and that come late."""

from __future__ import annotations

import time

import pytest

from tests.system.breakable import Breakable

pytestmark = pytest.mark.slow

DEADLINE = 90.0
UNNOTICED_SECONDS = 60.0
"""Flower misses two heartbeats of a node that is gone without a word, 30 s apart."""


def test_a_killed_node_costs_its_round_and_comes_back(three_sites: Breakable) -> None:
    running = three_sites.run("killed", rounds=5, exchange__deadline=DEADLINE)
    running.wait_for_checkpoint(1)
    running.wait_until(
        lambda: three_sites.log("site-b").rstrip().endswith("Received successfully"), "a second message"
    )
    three_sites.kill("site-b")
    start = time.monotonic()
    # As a service does; without a key Flower takes it for another node and believes in both for a while.
    three_sites.start_node("site-b")
    running.wait_for_line("site-b has come back as another node")
    waited = time.monotonic() - start
    running.finish()
    # It stands in the row of round 1, whose model it could not score any more, and in that of round 2.
    (reason,) = set(running.failures("site-b"))
    assert reason.startswith("error 5: "), reason
    assert f"round 2, site-b is left out: {reason}" in running.text
    rounds = running.rounds
    assert [row.round for row in rounds] == list(range(1, 6))
    assert rounds[1].seconds < UNNOTICED_SECONDS + 5
    assert waited < UNNOTICED_SECONDS + DEADLINE
    assert (rounds[1].clients_ok, rounds[1].clients_failed) == (2, 1)
    assert (rounds[-1].clients_ok, rounds[-1].clients_failed) == (3, 0)
    assert {row.client for row in running.clients if row.round == 5} == set(three_sites.sites)


def test_a_late_site_joins_the_round_after(three_sites: Breakable) -> None:
    three_sites.stop("site-c")
    # On a busy machine others go through many rounds until a program has started.
    running = three_sites.run("late", rounds=40, exchange__start_timeout=4)
    running.wait_for_line("waiting for 3 clients, 2 are online")
    running.wait_for_checkpoint(1)
    three_sites.start_node("site-c")
    running.finish()
    counts = [(row.clients_ok, row.clients_failed) for row in running.rounds]
    assert counts[0] == (2, 0)
    assert counts[-1] == (3, 0)
    # Nobody fails for the sake of the newcomer.
    assert {failed for _, failed in counts} == {0}
    assert {row.client for row in running.clients if row.round == 5} == set(three_sites.sites)


def test_too_few_sites_stop_the_start_with_what_to_do(three_sites: Breakable) -> None:
    for name in ("site-b", "site-c"):
        three_sites.stop(name)
    running = three_sites.run("alone", rounds=2, exchange__start_timeout=3)
    assert running.thread is not None
    running.thread.join(90)
    assert running.ended is not None
    assert running.ended.status == "finished:failed"
    assert "1 of 3 clients came online within 3 s: start the SuperNodes" in running.ended.details
