from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fedtag.client.run.commitment import committed_counts
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.secure.canonical import canonical

SIZES = {"nodes": 10, "train_nodes": 4, "val_nodes": 2, "test_nodes": 3}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site("a", tmp_path, tmp_path / "work", tmp_path / "cache")


def test_it_stays_for_a_run_as_long_as_the_counts_do(site: Site) -> None:
    first = committed_counts(site, "run-1", SIZES)
    assert committed_counts(site, "run-1", SIZES) == first
    assert committed_counts(site, "run-1", {**SIZES, "train_nodes": 5}) != first
    assert committed_counts(site, "run-2", SIZES) != first


def test_whoever_has_the_nonce_can_check_it(site: Site) -> None:
    found = committed_counts(site, "run-1", SIZES)
    kept = StateStore(site.state, "run-1").find("counts")
    assert kept is not None
    assert kept.values["sizes"] == SIZES
    text = json.dumps(SIZES, sort_keys=True)
    opened = hashlib.sha256(canonical("sizes", "run-1", "a", kept.values["nonce"], text)).hexdigest()
    assert found == opened
