from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from fedtag.common.errors import of_place
from fedtag.common.homes import cache_folder, home_folder, moved_by


def test_places_follow_the_variables_and_lie_at_home_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    for name in ("FEDTAG_CACHE", "FEDTAG_HOME"):
        monkeypatch.setenv(name, "")
    assert (cache_folder(), home_folder()) == (Path("/somewhere/.cache/fedtag"), Path("/somewhere/.fedtag"))
    monkeypatch.setenv("FEDTAG_CACHE", "/elsewhere")
    assert cache_folder() == Path("/elsewhere")


def test_what_the_system_says_is_told_with_the_variable_that_moves_the_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    for name in ("FEDTAG_CACHE", "FEDTAG_HOME", "HF_HOME", "FLWR_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = {
        "/somewhere/.cache/fedtag/texts.sqlite": "FEDTAG_CACHE",
        "/somewhere/.fedtag/runs/x": "FEDTAG_HOME",
        "/somewhere/.cache/huggingface/hub": "HF_HOME",
        f"{tempfile.gettempdir()}/fedtag-x": "TMPDIR",
    }
    for place, variable in places.items():
        assert moved_by(Path(place)) == variable
        said = of_place(OSError(errno.ENOSPC, "No space left on device", place))
        assert said == (
            f"{place}: No space left on device; check the path, its permissions and the disk, or set {variable} to "
            "another folder"
        )
    assert moved_by(Path("/data/runs")) is None
    said = of_place(OSError(errno.EACCES, "Permission denied"), Path("/data/runs"))
    assert said == "/data/runs: Permission denied; check the path, its permissions and the disk"
