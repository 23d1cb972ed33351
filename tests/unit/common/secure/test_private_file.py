from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedtag.common.secure.private_file import create_private, replace_private


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk, in order."""
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        order.append("fsync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> None:
        order.append(f"replace {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return order


def test_a_file_is_on_disk_before_it_takes_its_name(tmp_path: Path, events: list[str]) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("this system does not tell what a descriptor stands for")
    replace_private(tmp_path / "file", b"one")
    assert events == ["fsync file.tmp", "replace file", f"fsync {tmp_path.name}"]


def test_only_its_owner_reads_it_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    (tmp_path / "file.tmp").write_bytes(b"left by a killed writer")
    (tmp_path / "file.tmp").chmod(0o644)
    replace_private(path, b"one")
    replace_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert create_private(path, b"one")
    assert not create_private(path, b"two")
    assert path.read_bytes() == b"one"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
