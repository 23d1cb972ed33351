"""Letters between sites that are processes of their own: what goes over gRPC is what goes within one process."""

from __future__ import annotations

import pytest

from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.run_directory import RunDirectory
from tests.system.breakable import Breakable
from tests.system.conftest import NAMES, Undisturbed, assert_same_model

pytestmark = pytest.mark.slow

ROUNDS = 3
# Real condensation in little time; what is shown depends on the model, so that nodes go out in later rounds too.
LETTERS: dict[str, bool | int | float | str] = {
    "method": "fedc4",
    "ratio": 0.2,
    "condenser__outer_loops": 2,
    "condenser__inner_loops": 3,
    "condenser__hidden": 8,
    "fedc4__clusters": 1,
    "fedc4__threshold": 0.0,
    "train__learning_rate": 0.1,
}


def shown(rows: list[Disclosure]) -> list[tuple[int, str, str, str, int, int]]:
    """What sites showed one another: round, sender, receiver, kind, number and bytes."""
    return sorted(
        (row.round, one.sender, one.receiver, row.kind, one.count, one.bytes)
        for row in rows
        for one in row.crossings
        if {one.sender, one.receiver} <= set(NAMES)
    )


def test_letters_over_grpc_are_those_of_one_process(three_sites: Breakable, undisturbed: Undisturbed) -> None:
    running = three_sites.run("letters", rounds=ROUNDS, **LETTERS).finish()
    assert {(row.clients_ok, row.clients_failed) for row in running.rounds} == {(3, 0)}
    alone = undisturbed(rounds=ROUNDS, **LETTERS)
    assert_same_model(alone, running.out)
    told = shown(running.disclosures)
    assert told == shown(RunDirectory.open(alone).read_disclosures())
    assert {(kind, sender) for _, sender, _, kind, _, _ in told} == {
        (kind, name) for kind in (PORTRAIT, NODES) for name in NAMES
    }
    # Nothing that is shown crosses the server in clear.
    assert {row.protected for row in running.disclosures if row.kind in (PORTRAIT, NODES)} == {"encrypted"}


def test_a_peer_that_dies_and_returns_gets_what_waited_for_it(three_sites: Breakable) -> None:
    # Clusters form anew every second round, so that who was silent is heard again.
    running = three_sites.run(
        "returned", rounds=8, exchange__deadline=45.0, exchange__retries=0, fedc4__recluster=2, **LETTERS
    )
    running.wait_for_checkpoint(1)
    three_sites.kill("site-c")
    running.wait_until(lambda: bool(running.failures("site-c")), "a round without site-c")
    three_sites.start_node("site-c")
    running.finish()
    absent = {row.round for row in running.clients if row.client == "site-c" and row.failed}
    assert absent
    assert {row.client for row in running.clients if row.failed} == {"site-c"}
    back = max(absent) + 1
    assert back < 7
    late = [row for row in shown(running.disclosures) if row[0] >= back]
    assert {sender for _, sender, receiver, _, _, _ in late if receiver == "site-c"} == {"site-a", "site-b"}
    assert running.rounds[-1].clients_ok == 3
