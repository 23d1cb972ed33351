"""Three small sites, and what a run over them gives when nothing breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch

from client.session import Session
from client.site import Site
from common.config import RunConfig
from deploy.inprocess import InProcessGrid
from server.progress import LineProgress
from server.rounds import Rounds
from server.tracking.run_directory import RunDirectory
from tests.system.breakable import SMALL, Breakable

NAMES = ("site-a", "site-b", "site-c")
Undisturbed = Callable[..., Path]


@pytest.fixture
def sites(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> dict[str, Path]:
    """Data folders by the names of their sites."""
    return {name: write_feature_folder(tmp_path / "data" / name, seed=n) for n, name in enumerate(NAMES)}


@pytest.fixture
def three_sites(tmp_path: Path, sites: dict[str, Path]) -> Iterator[Breakable]:
    """Three sites that are online."""
    with Breakable(tmp_path / "federation", sites) as federation:
        yield federation


@pytest.fixture
def undisturbed(tmp_path: Path, sites: dict[str, Path]) -> Iterator[Undisturbed]:
    """The run directory of the same run without processes, and so without anything that could break."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(**settings: object) -> Path:
        changed = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        config = RunConfig.from_flat({**SMALL, **changed})
        out = tmp_path / f"undisturbed-{len(list(tmp_path.glob('undisturbed-*')))}"
        homes = {name: out.with_name(f"{out.name}-sites") / name for name in sites}
        own = [Site(name, sites[name], home, home / "cache", "cpu") for name, home in homes.items()]
        grid = InProcessGrid([Session(site, config) for site in own])
        Rounds(grid, config, RunDirectory(out), LineProgress()).run()
        return out

    yield run
    torch.set_num_threads(threads)


def assert_same_model(one: Path, other: Path) -> None:
    """Bit for bit the same released model, and the same rows of metrics but for durations and bytes."""
    first, second = (safetensors.torch.load_file(run / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name
    rows = [
        [(row.round, row.train_loss, row.val_accuracy, row.test_accuracy) for row in run.read_rounds()]
        for run in map(RunDirectory.open, (one, other))
    ]
    assert rows[0] == rows[1]
