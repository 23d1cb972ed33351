"""How many steps a client may say that it took, where training goes in batches and updates are divided by steps.

What honest clients do is always believed; a client that claims more than it can have done is left out, and as a control
it is believed, where it makes the steps of all as long as it likes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from fedtag.common.wire.records import Instruction, Reply
from fedtag.server.strategies import aggregation

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

LIAR = "site-1"
NOVA: dict[str, object] = {"aggregation.normalise": "fednova", "train.batch-size": 6, "rounds": 4}
SHOWN: dict[str, object] = {
    "method": "fedc4",
    "ratio": 0.5,
    "fedc4.exchange": "broadcast",
    "condenser.outer-loops": 1,
    "condenser.inner-loops": 1,
}
CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "sampled": {"train.client-fraction": 0.4},
    "adaptive": {"train.extra-epochs": 2, "train.accuracy-threshold": 1.0},
    "momentum": {"train.optimizer": "sgd", "train.momentum": 0.9, "train.learning-rate": 0.01},
    "condensed": {"condenser.name": "herding", "ratio": 0.5},
    "nodes of peers": SHOWN,
    "nodes of peers, sampled": {**SHOWN, "train.client-fraction": 0.4},
    "nodes of peers, by clusters": {**SHOWN, "fedc4.exchange": "selected", "train.batch-size": 3},
    "architectures": {"method": "da_dfgas"},
    "a part": {"parts": "neighbour-generator", "neighbour-generator.rounds": 1},
    "as each chooses": {"train.batch-size": "auto"},
}


def trained(run: Tried) -> list[dict[str, Any]]:
    return [row for row in run.lines("clients") if row["steps"]]


@pytest.mark.parametrize("case", CASES)
def test_an_honest_client_always_counts(tiny: Tiny, case: str) -> None:
    run = tiny({**NOVA, **CASES[case]}, 5)
    assert run.summary is not None, run.error
    rows = trained(run)
    assert len(rows) >= 4
    assert all(row["weight"] for row in rows)


def test_nodes_of_peers_make_more_batches_than_own_nodes_would(tiny: Tiny) -> None:
    """So that the case above is one."""
    run = tiny({**NOVA, **SHOWN}, 5)
    nodes = {session.site.name: session.data.graph.num_nodes for session in run.sessions}
    epochs = run.rounds.config.train.epochs
    assert any(row["steps"] > epochs * math.ceil(nodes[row["client"]] / 6) for row in trained(run))


@pytest.mark.parametrize("believed", [False, True], ids=["left out", "control"])
@pytest.mark.parametrize("settings", [{}, SHOWN], ids=["own nodes", "nodes of peers"])
def test_who_claims_more_steps_than_it_can_have_taken_is_left_out(
    tiny: Tiny, settings: dict[str, object], believed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ten thousand times, so that the step of all would be thousands of times as long."""
    if believed:
        monkeypatch.setattr(aggregation, "largest_normaliser", lambda train, nodes: math.inf)

    def lie(client: str, told: Instruction, reply: Reply) -> Reply:
        training = reply.content.values.get("training")
        if client != LIAR or not training:
            return reply
        values = {
            **reply.content.values,
            "training": {**training, "normaliser": 1e4 * training["normaliser"]},
        }
        return replace(reply, content=replace(reply.content, values=values))

    # A model whose steps are thousands of times as long soon says nothing that is a number.
    run = tiny({**NOVA, **settings, "rounds": 1}, 5, answer=lie)
    honest = tiny({**NOVA, **settings, "rounds": 1}, 5)
    weights = {row["client"]: row["weight"] for row in trained(run)}
    assert bool(weights[LIAR]) == believed
    assert all(weight for client, weight in weights.items() if client != LIAR)
    names = [name for name, value in honest.state.items() if value.is_floating_point()]
    longest = max(float(run.state[name].abs().max() / honest.state[name].abs().max()) for name in names)
    assert (longest > 100) == believed
