"""A network that delivers every instruction twice.

The second reply is the first one, or under masks a refusal, and nothing is spoilt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.wire.codec import decode_reply
from fedtag.common.wire.records import Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

SETTINGS: dict[str, object] = {
    "rounds": 3,
    "clients": 3,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 4,
    "dance.propagated": 1,
    "dance.rank": 2,
    "exchange.poll": 0.001,
}
CASES: dict[str, dict[str, object]] = {
    "fedavg": {"method": "fedavg"},
    "isolated": {"method": "isolated"},
    "dance": {"method": "dance"},
    "under masks": {"method": "fedavg", "privacy.secure-aggregation": True},
}


class TwiceGrid(InProcessGrid):
    """Hands over each message `times`; the last reply that is no refusal counts."""

    def __init__(self, sessions: list[SiteRun], times: int) -> None:
        super().__init__(sessions)
        self.times = times
        self.pairs: list[tuple[Reply, Reply]] = []
        self.refusals: set[str] = set()

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        keys = super().push_messages(sent)
        for _ in range(self.times - 1):
            first = [self.replies[key] for key in keys]
            assert super().push_messages(sent) == keys
            for one, key in zip(first, keys, strict=True):
                other = self.replies[key]
                assert not one.has_error()
                if other.has_error():
                    self.refusals.add(other.error.reason)
                    self.replies[key] = one
                    continue
                self.pairs.append((decode_reply(one.content, 1e12), decode_reply(other.content, 1e12)))
        return keys


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> Callable[..., tuple[dict[str, torch.Tensor], TwiceGrid]]:
    folders = [write_feature_folder(tmp_path_factory.mktemp("d") / f"site-{k}", seed=k) for k in range(3)]

    def federate(settings: dict[str, object], times: int) -> tuple[dict[str, torch.Tensor], TwiceGrid]:
        work = tmp_path_factory.mktemp("run")
        config = RunConfig.from_flat(without_foreign({**SETTINGS, **settings}))
        own = [Site(one.name, one, work / one.name, work / "cache", "cpu") for one in folders]
        grid = TwiceGrid([SiteRun(site, config) for site in own], times)
        directory = RunDirectory(work / "run")
        with pytest.MonkeyPatch.context() as patch:
            # The report has tests of its own and takes longer than a run of this size.
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            Rounds(grid, config, directory, LineProgress()).run()
        scores = torch.tensor([row.test_accuracy or 0.0 for row in directory.read_rounds()])
        released = directory.read_model() if (directory.path / "model.safetensors").exists() else {}
        return {**released, "scores": scores}, grid

    return federate


def told(reply: Reply) -> dict[str, Any]:
    """What a reply says, without what differs between two honest answers: how long they took, what was cached."""
    values = {name: value for name, value in reply.content.values.items() if name != "seconds"}
    introduction = dict(values.pop("introduction", {}))
    for name in ("encoded_chunks", "encoded_tokens"):
        introduction.pop(name, None)
    return {**values, "introduction": introduction}


@pytest.mark.parametrize("name", CASES)
def test_a_message_delivered_twice_is_answered_the_same(
    run: Callable[..., tuple[dict[str, torch.Tensor], TwiceGrid]], name: str
) -> None:
    once, _ = run(CASES[name], 1)
    twice, grid = run(CASES[name], 2)
    assert grid.pairs
    for first, second in grid.pairs:
        assert first.content.tensors.keys() == second.content.tensors.keys()
        for key, value in first.content.tensors.items():
            assert torch.equal(value, second.content.tensors[key]), (first.phase, key)
        assert told(first) == told(second)
    assert once.keys() == twice.keys()
    for key, value in once.items():
        assert torch.equal(value, twice[key]), key
    masked = name == "under masks"
    assert bool(grid.refusals) == masked
    assert all(
        re.search("was set up before|was masked or passed over before", reason) for reason in grid.refusals
    )
