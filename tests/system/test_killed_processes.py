"""kill -9 of each process of a federation while a run goes on: what the run makes of it, and how soon."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest

from tests.system.breakable import Breakable, Running

NOTICED_SECONDS = 10.0
LONG = {"train__epochs": 200, "exchange__deadline": 90}


def of(federation: Breakable, program: str, *words: str) -> psutil.Process | None:
    """The process of a service whose command has all the words; None if there is none now."""
    for process in federation.programs[program].family():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if all(any(word in part for part in command) for word in words):
            return process
    return None


def executor(federation: Breakable, program: str) -> psutil.Process | None:
    found = of(federation, program, "fedtag.deploy.executor.service")
    # A child that works looks as its parent does.
    while found is not None and (parent := found.parent()) and parent.cmdline() == found.cmdline():
        found = parent
    return found


def task(federation: Breakable, program: str) -> psutil.Process | None:
    """The process of a message or a run that is in work."""
    found = executor(federation, program)
    children = [] if found is None else found.children()
    return children[0] if children else None


def worker(federation: Breakable, program: str) -> psutil.Process | None:
    return of(federation, program, "fedtag.client.worker.service")


def supernode(federation: Breakable, program: str) -> psutil.Process | None:
    return of(federation, program, "fedtag.deploy.executor.supernode")


def killed(running: Running, look: Callable[[], psutil.Process | None], what: str) -> float:
    """Kill a process as soon as it is there; returns when."""
    found: list[psutil.Process] = []

    def there() -> bool:
        if (one := look()) is not None:
            found.append(one)
        return bool(found)

    running.wait_until(there, what, 120)
    found[0].kill()
    return time.monotonic()


@pytest.mark.parametrize("lost", ["the process of a message", "the executor", "the worker"])
def test_a_site_that_loses_a_process_is_back_in_the_next_round(three_sites: Breakable, lost: str) -> None:
    look = {"the process of a message": task, "the executor": executor, "the worker": worker}[lost]
    running = three_sites.run(f"lost-{lost.split()[-1]}", rounds=3, **LONG)
    running.wait_for_checkpoint(1)
    running.wait_until(lambda: task(three_sites, "site-b") is not None, "a message at site-b")
    at = killed(running, lambda: look(three_sites, "site-b"), lost)
    running.wait_for_checkpoint(2)
    took = time.monotonic() - at
    running.finish()
    assert running.rounds[-1].clients_failed == 0
    failures = running.failures("site-b")
    if lost == "the process of a message":
        assert all("ended by signal 9" in reason for reason in failures), failures
        assert took < 3 * NOTICED_SECONDS
    else:
        # The message is finished by the process that has it, or by another worker.
        assert failures == []
    if lost == "the executor":
        assert "executor was ended by signal 9; it is started again in 0.5 s" in three_sites.log("site-b")


@pytest.mark.slow
def test_a_run_outlives_the_executor_that_started_it(three_sites: Breakable) -> None:
    running = three_sites.run("lost-link-executor", rounds=3, **LONG)
    running.wait_for_checkpoint(1)
    killed(running, lambda: executor(three_sites, "superlink"), "the executor of the link")
    running.finish()
    assert {row.clients_failed for row in running.rounds} == {0}
    assert "executor was ended by signal 9" in three_sites.log("superlink")
    # A run that was submitted while there was none is taken by the next one.
    assert three_sites.run("after", rounds=1).finish().rounds


def test_a_run_whose_process_is_killed_has_failed_at_once_and_resumes(three_sites: Breakable) -> None:
    running = three_sites.run("lost-run", rounds=3, **LONG)
    running.wait_for_checkpoint(1)
    at = killed(running, lambda: task(three_sites, "superlink"), "the run's process")
    assert running.thread is not None
    running.thread.join(60)
    assert running.ended is not None
    assert time.monotonic() - at < 3 * NOTICED_SECONDS
    assert running.ended.status == "finished:failed"
    assert "ended by signal 9" in running.ended.details
    resumed = three_sites.run("lost-run", rounds=3, resume=True, **LONG).finish()
    assert [row.round for row in resumed.rounds] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["SuperNode", "the service"])
def test_a_site_whose_supernode_is_killed_costs_its_round(three_sites: Breakable, lost: str) -> None:
    running = three_sites.run(f"lost-{lost.split()[-1]}", rounds=5, **LONG)
    running.wait_for_checkpoint(1)
    if lost == "SuperNode":
        killed(running, lambda: supernode(three_sites, "site-b"), lost)
    else:
        three_sites.kill("site-b")
        three_sites.start_node("site-b")
    running.finish()
    assert running.rounds[-1].clients_failed == 0
    assert {row.client for row in running.clients if row.round == 5} == set(three_sites.sites)
