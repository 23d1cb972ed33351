"""Honest runs on the shared graphs, none of whose updates is so long that it would be cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.common.config import RunConfig
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.run_directory import RunDirectory
from tests.tiny import Notes

WAYS = ({}, {"train.optimizer": "sgd", "train.learning-rate": 0.1}, {"data.partition": "dirichlet"})


@pytest.mark.parametrize("way", WAYS, ids=["adam", "sgd", "dirichlet"])
@pytest.mark.parametrize("graph", ["planetoid_cora", "planetoid_citeseer"])
def test_no_honest_update_is_cut(
    shared_data: Path, tmp_path: Path, graph: str, way: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
    settings: dict[str, object] = {
        "method": "fedavg",
        "data.source": str(shared_data / "graphs" / f"{graph}.npz"),
        "clients": 10,
        "rounds": 5,
        "device": "cpu",
        "out": str(tmp_path / "run"),
        "exchange.poll": 0.001,
        **way,
    }
    config = RunConfig.from_flat(settings)
    sites = simulate_sites(config, tmp_path / "sites")
    notes = Notes()
    grid = InProcessGrid([SiteRun(site, config) for site in sites], lambda parcel: None)
    Rounds(grid, config, RunDirectory(tmp_path / "run"), notes).run()
    assert [note for note in notes.texts if "cut to that length" in note or "left out" in note] == []
