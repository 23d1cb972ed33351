"""Two runs at once on the same SuperNodes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.system.breakable import Breakable
from tests.system.conftest import Undisturbed, assert_same_model

pytestmark = pytest.mark.slow

ROUNDS = 3


def test_each_of_two_runs_gives_what_it_gives_alone(three_sites: Breakable, undisturbed: Undisturbed) -> None:
    settings = [{"seed": 1, "rounds": ROUNDS}, {"seed": 2, "rounds": ROUNDS, "model__hidden": 6}]
    both = [three_sites.run(f"run-{number}", **own) for number, own in enumerate(settings)]
    for one, own in zip(both, settings, strict=True):
        one.finish()
        assert {(row.clients_ok, row.clients_failed) for row in one.rounds} == {(3, 0)}
        assert_same_model(undisturbed(**own), one.out)
    # They did run at the same time, with one worker a site.
    logs = [three_sites.log(name) for name in three_sites.sites]
    assert all(interleaved(log) for log in logs)


def interleaved(log: str) -> bool:
    """Whether messages of the last two runs came in turns."""
    runs = [line.split("[RUN ")[1].split(",")[0] for line in log.splitlines() if "[RUN " in line]
    last = list(dict.fromkeys(reversed(runs)))[:2]
    of_both = [run for run in runs if run in last]
    changes = sum(one != other for one, other in pairwise(of_both))
    return changes > 1
