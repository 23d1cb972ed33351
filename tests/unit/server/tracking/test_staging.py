"""A run directory that is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.common.errors import RunError
from fedtag.server.tracking.run_directory import CONFIG, METRICS
from fedtag.server.tracking.staging import staged


def test_it_comes_whole_and_what_makes_it_a_run_comes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    rename = Path.rename
    monkeypatch.setattr(Path, "rename", lambda path, to: (moved.append(path.name), rename(path, to))[1])
    out = tmp_path / "runs" / "one"
    with staged(out) as made:
        for name in (CONFIG, METRICS, "checkpoint", "zone"):
            (made.path / name).touch()
        assert not out.exists()
    assert sorted(path.name for path in out.iterdir()) == sorted(moved)
    assert set(moved[:2]) == {"checkpoint", "zone"}
    assert moved[2:] == [METRICS, CONFIG]
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_nothing_is_left_where_it_fails(tmp_path: Path) -> None:
    def failing() -> None:
        with staged(tmp_path / "run") as made:
            (made.path / CONFIG).touch()
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        failing()
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("kept")
    with pytest.raises(RunError, match="is not empty and is no run directory"), staged(tmp_path) as made:
        (made.path / CONFIG).touch()
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
