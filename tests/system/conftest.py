"""Three small sites, and what a run over them gives when nothing breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch

from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory
from tests.system.breakable import SMALL, Breakable

RUNNING = pytest.StashKey[Breakable]()
NAMES = ("site-a", "site-b", "site-c")
Undisturbed = Callable[..., Path]


@pytest.fixture(scope="session")
def sites(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> dict[str, Path]:
    """Data folders by the names of their sites."""
    folder = tmp_path_factory.mktemp("data")
    return {name: write_feature_folder(folder / name, seed=n) for n, name in enumerate(NAMES)}


@pytest.fixture(scope="session")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sites: dict[str, Path]
) -> Iterator[Breakable]:
    """Three sites for all tests: starting them and their workers costs more than what breaks."""
    with Breakable(tmp_path_factory.mktemp("three"), sites) as federation:
        request.config.stash[RUNNING] = federation
        yield federation


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The three sites end with this folder: their programs, looking for work, would take time from all other tests."""
    over = nextitem is None or not nextitem.path.is_relative_to(Path(__file__).parent)
    if over and (federation := item.config.stash.get(RUNNING, None)):
        federation.group.stop()


@pytest.fixture
def three_sites(running: Breakable) -> Breakable:
    """Three sites that are online."""
    running.restore()
    return running


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, Path]) -> Iterator[Breakable]:
    """Two of the three sites, with TLS and a key for each node."""
    present = NAMES[:2]
    with Breakable(tmp_path_factory.mktemp("encrypted"), sites, tls=True, present=present) as federation:
        yield federation


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, Path]) -> Undisturbed:
    """The run directory of the same run without processes, and so without anything that could break."""

    def run(**settings: object) -> Path:
        changed = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        config = RunConfig.from_flat({**SMALL, **changed})
        folder = tmp_path_factory.mktemp("undisturbed")
        out, threads = folder / "run", torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            homes = {name: folder / "sites" / name for name in sites}
            own = [Site(name, sites[name], home, home / "cache", "cpu") for name, home in homes.items()]
            grid = InProcessGrid([SiteRun(site, config) for site in own])
            Rounds(grid, config, RunDirectory(out), LineProgress()).run()
        finally:
            torch.set_num_threads(threads)
        return out

    return run


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
