"""What the SuperNodes of a local federation are told, and what is reported of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedtag.client.site.site import Site, site_from_node_config
from fedtag.deploy.federation.flower_run import node_config, noted, reason_reported, with_sites
from fedtag.server.tracking.status import RunStatus, read_status, write_status


@pytest.mark.parametrize("roster", [None, "roster.toml"])
def test_a_supernode_finds_the_site_that_was_made_for_it(roster: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "north"
    folder.mkdir()
    site = Site(
        "north", folder, folder, tmp_path / "cache", "cpu", None if roster is None else tmp_path / roster
    )
    assert site_from_node_config(node_config(site), "auto") == site


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("fedtag WARNING: round 1, node 7 is left out: x", "round 1, node 7 is left out: x"),
        ("fedtag INFO: 3 rounds", None),
        (
            '{"level": "WARNING", "logger": "fedtag", "event": "client left out", "round": 1, "node": "7", "code": 5}',
            "client left out, round 1, node 7, code 5",
        ),
        ('{"level": "INFO", "logger": "fedtag", "event": "round"}', None),
        ('{"level": "WARNING", "logger": "flwr", "event": "message"}', None),
        ("{not JSON", None),
        ("{}", None),
    ],
)
def test_notes_in_the_log_of_the_server_app(line: str, note: str | None) -> None:
    assert noted(line) == note


def test_sites_stand_beside_the_numbers_of_their_nodes() -> None:
    text = "round 1, node 71 is left out: error 5; node 7 and node 8; supernode 7"
    assert with_sites(text, {"7": "north", "71": "south"}) == (
        "round 1, south (node 71) is left out: error 5; north (node 7) and node 8; supernode 7"
    )


def test_the_reason_is_what_this_part_of_the_run_has_said(tmp_path: Path) -> None:
    assert reason_reported(tmp_path, None) is None
    time = "2026-05-01T12:00:00Z"
    stopped = RunStatus(
        "0af", "fedavg", "stopped", 1, 3, 2, "host", 1, time, time, reason="too few answered."
    )
    write_status(tmp_path, stopped)
    assert reason_reported(tmp_path, None) == "too few answered"
    assert reason_reported(tmp_path, read_status(tmp_path)) is None
    write_status(tmp_path, replace(stopped, state="training"))
    assert reason_reported(tmp_path, None) is None
