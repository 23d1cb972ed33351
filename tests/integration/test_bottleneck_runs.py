"""FedGC's bottleneck in whole runs: what is made of features, where it stays, and what it takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.wire.codec import decode_reply
from fedtag.common.wire.records import Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

NAMES = ("a", "b")
SETTINGS: dict[str, Any] = {
    "method": "fedgc",
    "rounds": 3,
    "clients": 2,
    "device": "cpu",
    "ratio": 0.1,
    "model.hidden": 8,
    "fedgc.self-training-rounds": 1,
    "fedgc.hidden": 8,
    "fedgc.steps": 2,
    "fedgc.model-steps": 5,
    "fedgc.fine-tune-steps": 2,
    "fedgc.bottleneck": True,
    "fedgc.learn-from": "both",
    "fedgc.min-class-count": 2,
    "fedgc.bottleneck-epochs": 5,
    "exchange.poll": 0.001,
}


class Grid(InProcessGrid):
    """Notes what the server gets."""

    def __init__(self, sessions: list[SiteRun]) -> None:
        super().__init__(sessions)
        self.seen: list[Reply] = []

    def push_messages(self, messages: Any) -> list[str]:
        keys = super().push_messages(list[Message](messages))
        self.seen += [decode_reply(self.replies[key].content, 1e9) for key in keys]
        return keys


Train = Callable[..., tuple[Grid, list[SiteRun]]]


@pytest.fixture
def train(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Train:
    data = {name: write_feature_folder(tmp_path / "data" / name, 60, seed) for seed, name in enumerate(NAMES)}

    def run(label: str, **changes: Any) -> tuple[Grid, list[SiteRun]]:
        config = RunConfig.from_flat({**SETTINGS, **changes, "out": str(tmp_path / label)})
        cache = tmp_path / "cache"
        sites = [Site(name, data[name], tmp_path / f"{label} {name}", cache, "cpu") for name in NAMES]
        sessions = [SiteRun(site, config) for site in sites]
        grid = Grid(sessions)
        Rounds(grid, config, RunDirectory(tmp_path / label), LineProgress()).run()
        return grid, sessions

    return run


def prepared(grid: Grid, session: SiteRun) -> dict[str, np.ndarray]:
    """What a site has kept for the rounds of condensation."""
    folder = session.site.state / grid.seen[0].run
    (file,) = folder.glob("prepared-*.safetensors")
    found = StateStore(session.site.state, grid.seen[0].run).find(file.stem)
    assert found is not None
    return {name: value.numpy() for name, value in found.tensors.items()}


def test_transformed_features_take_the_place_of_the_given_ones_and_stay_at_the_site(train: Train) -> None:
    grid, sessions = train("run")
    for session in sessions:
        z, x = prepared(grid, session)["x"], session.data.graph.x.numpy()
        assert z.shape == x.shape
        assert np.isfinite(z).all()
        assert np.abs(z - x).mean() > 0.1
        planted = [row.tobytes() for row in (*z, *z.T)]
        for reply in grid.seen:
            told = [value.numpy().tobytes() for value in reply.content.tensors.values()]
            assert not any(one in text for one in planted for text in told)


def test_it_is_the_same_in_every_run_of_a_seed_and_another_at_another(train: Train) -> None:
    (first, one), (second, two) = train("one"), train("two")
    for before, after in zip(one, two, strict=True):
        np.testing.assert_array_equal(prepared(first, before)["x"], prepared(second, after)["x"])
    third, three = train("three", seed=1)
    assert np.abs(prepared(first, one[0])["x"] - prepared(third, three[0])["x"]).max() > 0.1


def test_without_it_features_are_the_given_ones(train: Train) -> None:
    grid, sessions = train("off", **{"fedgc.bottleneck": False})
    for session in sessions:
        np.testing.assert_array_equal(prepared(grid, session)["x"], session.data.graph.x.numpy())


def test_it_needs_the_self_trained_model_and_no_pseudo_labels(train: Train) -> None:
    grid, sessions = train("alone", **{"fedgc.learn-from": "training"})
    assert {reply.phase for reply in grid.seen if reply.round == 1} == {"train"}
    for session in sessions:
        kept = prepared(grid, session)
        np.testing.assert_array_equal(kept["labelled"], session.data.graph.train_mask.numpy())
        assert np.abs(kept["x"] - session.data.graph.x.numpy()).mean() > 0.1
