"""The condensed graph as what a run releases: its card says after how many rounds of condensation it was taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedtag.common.config import RunConfig
from fedtag.common.wire.records import prefixed
from fedtag.server.methods.fedgc.artefact import ARTEFACT
from fedtag.server.methods.fedgc.release import GRAPH, read_condensed
from fedtag.server.methods.fedgc.states import read_states
from fedtag.server.tracking.artefact import About
from tests.unit.common.synthetic.test_condensed import CLASSES, DIM, sound


@pytest.mark.parametrize(("learned", "rounds"), [("both", 4), ("training", 7)])
def test_what_is_written_is_found_and_read(tmp_path: Path, learned: str, rounds: int) -> None:
    own = {"fedgc.learn-from": learned, "fedgc.bottleneck": False, "fedgc.self-training-rounds": 3}
    config = RunConfig.from_flat({"method": "fedgc", "ratio": 0.5, **own})
    assert not ARTEFACT.is_at(tmp_path)
    ARTEFACT.write(tmp_path, prefixed(GRAPH, sound()), About(config, 7, ("a", "b"), DIM, "folder"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(ARTEFACT.files)
    first, second = (tmp_path / name for name in ARTEFACT.files)
    assert [ARTEFACT.is_at(path) for path in (tmp_path, first, second)] == [True, True, False]
    release, graph = ARTEFACT.read(tmp_path), read_condensed(tmp_path)
    assert (release.about.round, graph.card.rounds, release.about.config.ratio) == (7, rounds, 0.5)
    assert release.digest == graph.card.digest
    assert all(torch.equal(release.tensors[f"{GRAPH}/{name}"], value) for name, value in sound().items())


def test_a_state_that_is_kept_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    config = RunConfig.from_flat({"method": "fedgc"})
    for shift in (0.0, 1.0):
        graph = {**sound(), "x": sound()["x"] + shift}
        ARTEFACT.keep_state(tmp_path, 2, prefixed(GRAPH, graph))
    (state,) = read_states(tmp_path, config, DIM, CLASSES)
    assert state.round == 2
    assert state.graph is not None
    assert torch.equal(state.graph.x, sound()["x"] + 1)
