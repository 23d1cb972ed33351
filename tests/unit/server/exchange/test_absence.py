from __future__ import annotations

import time

from fedtag.common.settings.sections import ExchangeConfig
from fedtag.server.exchange.absence import Absence

PENDING = "error 2: hospital-a: ApprovalError: waiting for approval at the site: fedtag site approve run"
FAILED = "error 2: hospital-a: PolicyError: rule 'methods' of the policy of hospital-a refuses it"
QUICK = ExchangeConfig(poll=0.001, start_timeout=0.25)


def test_strangers_that_wait_are_missed_by_nobody_once_a_run_has_begun() -> None:
    late = Absence(QUICK, asked=5, begun=True)
    assert late.quorum(1) == 3
    late.noted(range(5), {2: PENDING, 3: PENDING, 4: PENDING})
    assert late.quorum(1) == 1
    assert late.quorum(2) == 2
    assert not late.wait(lambda: None)
    # Who failed for another reason is missed.
    failed = Absence(QUICK, asked=5, begun=True)
    failed.noted(range(5), {2: FAILED, 3: FAILED, 4: FAILED})
    assert failed.quorum(1) == 3
    assert failed.pending == set()


def test_at_the_start_they_are_waited_for_until_the_time_is_over() -> None:
    start, beats, first = time.monotonic(), [], Absence(QUICK, asked=4, begun=False)
    assert first.noted(range(4), {1: PENDING}) == set()
    assert first.quorum(1) == 2
    while first.wait(lambda: beats.append(1)):
        assert first.noted([1], {1: PENDING}) == {1}
    assert beats
    assert time.monotonic() - start < 5
    assert first.noted([1], {}) == set()
    assert first.pending == set()
    assert not first.wait(lambda: None)
