"""A site's data folder vanishes, and its disk is full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedtag.client.worker.handover import ask
from fedtag.server.tracking.run_directory import RunDirectory
from tests.system.breakable import Breakable
from tests.system.conftest import Undisturbed

pytestmark = pytest.mark.slow

DISK = "256k"


def test_a_vanished_data_folder_costs_the_rounds_without_it(three_sites: Breakable) -> None:
    folder = three_sites.sites["site-b"]
    running = three_sites.run("vanished", rounds=4)
    running.wait_for_checkpoint(1)
    away = folder.rename(folder.with_name("away"))
    try:
        running.wait_for_line(
            "site-b is left out: error 2: site-b: ConfigError; the site's own log says more"
        )
    finally:
        away.rename(folder)
    running.finish()
    assert f"the data folder {folder} does not exist" in three_sites.log("site-b")
    # The server learns that there is trouble, and no path of the site.
    assert str(folder) not in running.text
    counts = [(row.clients_ok, row.clients_failed) for row in running.rounds]
    assert (2, 1) in counts
    assert counts[-1] == (3, 0)


@pytest.fixture
def small_disk(three_sites: Breakable) -> Iterator[Path]:
    """A disk of 256 KiB as the workspace of site-c."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small disk needs root")
    workspace = three_sites.workspaces["site-c"]
    workspace.mkdir(parents=True, exist_ok=True)
    ask(workspace, "stop", 30)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "fedtag-small", str(workspace)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted: {done.stderr.strip()}")
    yield workspace
    ask(workspace, "stop", 30)
    subprocess.run(["umount", "--lazy", str(workspace)], check=True)


def test_a_full_disk_costs_the_rounds_until_there_is_room(
    three_sites: Breakable, small_disk: Path, undisturbed: Undisturbed
) -> None:
    # Of the methods without evidence, this is the one that keeps something at the sites.
    settings = {"method": "isolated", "rounds": 4}
    running = three_sites.run("full", **settings)
    running.wait_for_checkpoint(1)
    states = small_disk / "state"
    kept = set(states.rglob("*.safetensors"))
    assert kept
    waste = small_disk / "waste"
    with waste.open("wb") as file:
        fill(file.fileno())
    running.wait_for_line("site-c is left out: error 2: site-c: RunError: No space left on device")
    # What was remembered is still whole, and nothing is left of the failed attempts.
    assert kept <= set(states.rglob("*"))
    assert not list(states.rglob("*.tmp"))
    waste.unlink()
    running.finish()
    log = three_sites.log("site-c") + (small_disk / "worker" / "log").read_text()
    assert f"site site-c: no space is left at {small_disk} (0.0 MiB are free): make room there" in log
    assert str(small_disk) not in running.text
    counts = [(row.clients_ok, row.clients_failed) for row in running.rounds]
    assert (2, 1) in counts
    assert counts[-1] == (3, 0)
    # The others did what they would have done anyway.
    lone = undisturbed(**settings)
    assert_same_scores(lone, running.out, ["site-a", "site-b"])


def fill(descriptor: int) -> None:
    """Write until nothing more fits."""
    piece = bytes(4096)
    while True:
        try:
            os.write(descriptor, piece)
        except OSError:
            return


def assert_same_scores(one: Path, other: Path, sites: list[str]) -> None:
    scores = [
        [(row.round, row.client, row.test_accuracy) for row in run.read_clients() if row.client in sites]
        for run in map(RunDirectory.open, (one, other))
    ]
    assert scores[0] == scores[1]
    assert scores[0]
