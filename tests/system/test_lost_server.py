"""The server's machine fails, and the run goes on from its checkpoint as if nothing had been."""

from __future__ import annotations

import pytest

from tests.system.breakable import Breakable
from tests.system.conftest import Undisturbed, assert_same_model

pytestmark = pytest.mark.slow

ROUNDS = 4


def test_a_killed_server_goes_on_from_its_checkpoint(
    three_sites: Breakable, undisturbed: Undisturbed
) -> None:
    broken = three_sites.run("broken", rounds=ROUNDS)
    broken.wait_for_checkpoint(2)
    three_sites.kill("superlink")
    assert broken.thread is not None
    broken.thread.join(60)
    assert broken.ended is None
    assert "SuperLink" in str(broken.error)
    assert broken.checkpoints[-1] in (2, 3)
    admissions = {name: three_sites.log(name).count("SuperNode ID") for name in three_sites.sites}
    three_sites.start_superlink()
    resumed = three_sites.run("broken", rounds=ROUNDS, resume=True).finish()
    assert "4 rounds, going on after round" in resumed.text
    assert [row.round for row in resumed.rounds] == list(range(1, ROUNDS + 1))
    assert {(row.clients_ok, row.clients_failed) for row in resumed.rounds} == {(3, 0)}
    assert_same_model(undisturbed(rounds=ROUNDS), resumed.out)
    # No SuperNode was started again.
    assert admissions == {name: three_sites.log(name).count("SuperNode ID") for name in three_sites.sites}
