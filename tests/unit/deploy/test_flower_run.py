"""What the SuperNodes of a local federation are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from client.site import Site, site_from_node_config
from deploy.flower_run import node_config


@pytest.mark.parametrize("roster", [None, "roster.toml"])
def test_a_supernode_finds_the_site_that_was_made_for_it(roster: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "north"
    folder.mkdir()
    site = Site(
        "north", folder, folder, tmp_path / "cache", "cpu", None if roster is None else tmp_path / roster
    )
    assert site_from_node_config(node_config(site), "auto") == site
