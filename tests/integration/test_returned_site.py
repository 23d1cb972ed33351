"""A site whose SuperNode was started again without a key: Flower calls it another node and still shows the former."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from flwr.app import Message

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.models.parameters import fingerprint
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

ROUNDS = 4
FORMER, NOW = 3, 9
SETTINGS: dict[str, object] = {
    "method": "fedavg",
    "rounds": ROUNDS,
    "clients": 3,
    "device": "cpu",
    "model.hidden": 4,
    "exchange.poll": 0.001,
    # Waited for once; a client may train for most of it.
    "exchange.deadline": 2.0,
}


class RestartedGrid(InProcessGrid):
    """From round 2 on, the site of the node 3 answers as node 9, and node 3 is silent."""

    def __init__(self, sessions: list[SiteRun], restarted: bool) -> None:
        super().__init__(sessions)
        self.restarted = restarted
        self.asked: list[tuple[int, int]] = []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        self.asked += [(int(one.metadata.group_id), one.metadata.dst_node_id) for one in sent]
        keys = super().push_messages(sent)
        for key, one in zip(keys, sent, strict=True):
            if one.metadata.dst_node_id == FORMER and NOW in self.contexts:
                del self.replies[key]
        if self.restarted:
            self.contexts[NOW] = self.contexts[FORMER]
        return keys


@pytest.fixture
def run(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> Callable[[bool], tuple[str, RestartedGrid, Path]]:
    folders = [write_feature_folder(tmp_path / f"site-{k}", seed=k) for k in range(3)]

    def federate(restarted: bool) -> tuple[str, RestartedGrid, Path]:
        work = tmp_path / f"run-{restarted}"
        config = RunConfig.from_flat(SETTINGS)
        sites = [Site(one.name, one, work / one.name, work / "cache", "cpu") for one in folders]
        grid = RestartedGrid([SiteRun(site, config) for site in sites], restarted)
        rounds = Rounds(grid, config, RunDirectory(work / "run"), LineProgress())
        rounds.run()
        assert rounds.run_state.state is not None
        return fingerprint(rounds.run_state.state.tensors), grid, work / "run"

    return federate


def test_the_former_node_is_asked_no_more(
    run: Callable[[bool], tuple[str, RestartedGrid, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed, _, _ = run(False)
    with caplog.at_level(logging.WARNING, logger="fedtag"):
        model, grid, out = run(True)
    assert model == undisturbed
    assert [number for number, node in grid.asked if node == FORMER] == [1, 2]
    assert [number for number, node in grid.asked if node == NOW] == [2, 3, 4, 5]
    assert f"site-1 has come back as another node; node {FORMER} is asked no more" in caplog.text
    rows = RunDirectory.open(out).read_rounds()
    assert [row.clients_ok for row in rows] == [3] * ROUNDS
    assert {row.client for row in RunDirectory.open(out).read_clients()} == {"site-0", "site-1", "site-2"}
